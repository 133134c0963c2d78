"""PostgreSQL's catalogs of a viewlet database: what psql, drivers and tools ask before they read.

Tables of the shape that PostgreSQL documents, in a private DuckDB that reads no files; made anew
when definitions have changed. Catalogs of things that viewlet does not have are there and empty.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from viewlet.frontend.catalog_text import catalog_text
from viewlet.interfaces.adhoc import duckdb_connection, guarded
from viewlet.interfaces.cancellation import Cancellation, interrupted
from viewlet.interfaces.database import Database
from viewlet.interfaces.described import RelationSchema
from viewlet.interfaces.information_schema import information_tables
from viewlet.server.pg_types import quoted_text, wire_oid

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = "13.0"
"""The version whose catalogs these are like: clients choose their queries by it."""

SECONDS = 10.0
FIRST_OID = 16_384
PUBLIC, PG_CATALOG, INFORMATION_SCHEMA, OWNER = 2200, 11, 12, 10

TABLES = {
    "pg_namespace": "oid BIGINT, nspname TEXT, nspowner BIGINT, nspacl TEXT[]",
    "pg_class": "oid BIGINT, relname TEXT, relnamespace BIGINT, reltype BIGINT, reloftype BIGINT, "
    "relowner BIGINT, relam BIGINT, relfilenode BIGINT, reltablespace BIGINT, relpages INT, "
    "reltuples DOUBLE, relallvisible INT, reltoastrelid BIGINT, relhasindex BOOLEAN, "
    "relisshared BOOLEAN, relpersistence TEXT, relkind TEXT, relnatts SMALLINT, "
    "relchecks SMALLINT, relhasrules BOOLEAN, relhastriggers BOOLEAN, relhassubclass BOOLEAN, "
    "relrowsecurity BOOLEAN, relforcerowsecurity BOOLEAN, relispopulated BOOLEAN, "
    "relreplident TEXT, relispartition BOOLEAN, relrewrite BIGINT, relacl TEXT[], "
    "reloptions TEXT[], relpartbound TEXT, relhasoids BOOLEAN, xmin BIGINT, tableoid BIGINT",
    "pg_attribute": "attrelid BIGINT, attname TEXT, atttypid BIGINT, attstattarget INT, "
    "attlen SMALLINT, attnum SMALLINT, attndims INT, atttypmod INT, attnotnull BOOLEAN, "
    "atthasdef BOOLEAN, atthasmissing BOOLEAN, attidentity TEXT, attgenerated TEXT, "
    "attisdropped BOOLEAN, attislocal BOOLEAN, attcollation BIGINT, attstorage TEXT, "
    "attcompression TEXT, attacl TEXT[], attoptions TEXT[], attfdwoptions TEXT[]",
    "pg_type": "oid BIGINT, typname TEXT, typnamespace BIGINT, typowner BIGINT, typlen SMALLINT, "
    "typtype TEXT, typcategory TEXT, typispreferred BOOLEAN, typisdefined BOOLEAN, "
    "typdelim TEXT, typrelid BIGINT, typelem BIGINT, typarray BIGINT, typinput TEXT, "
    "typoutput TEXT, typreceive TEXT, typsend TEXT, typnotnull BOOLEAN, typbasetype BIGINT, "
    "typtypmod INT, typndims INT, typcollation BIGINT, typdefault TEXT",
    "pg_index": "indexrelid BIGINT, indrelid BIGINT, indnatts SMALLINT, indnkeyatts SMALLINT, "
    "indisunique BOOLEAN, indisprimary BOOLEAN, indisexclusion BOOLEAN, indimmediate BOOLEAN, "
    "indisclustered BOOLEAN, indisvalid BOOLEAN, indisready BOOLEAN, indislive BOOLEAN, "
    "indisreplident BOOLEAN, indkey SMALLINT[], indcollation BIGINT[], indclass BIGINT[], "
    "indoption SMALLINT[], indexprs TEXT, indpred TEXT",
    "pg_constraint": "oid BIGINT, conname TEXT, connamespace BIGINT, contype TEXT, "
    "condeferrable BOOLEAN, condeferred BOOLEAN, convalidated BOOLEAN, conrelid BIGINT, "
    "contypid BIGINT, conindid BIGINT, conparentid BIGINT, confrelid BIGINT, confupdtype TEXT, "
    "confdeltype TEXT, confmatchtype TEXT, conislocal BOOLEAN, coninhcount INT, "
    "connoinherit BOOLEAN, conkey SMALLINT[], confkey SMALLINT[], conexclop BIGINT[], conbin TEXT",
    "pg_description": "objoid BIGINT, classoid BIGINT, objsubid INT, description TEXT",
    "pg_attrdef": "oid BIGINT, adrelid BIGINT, adnum SMALLINT, adbin TEXT",
    "pg_am": "oid BIGINT, amname TEXT, amhandler TEXT, amtype TEXT",
    "pg_roles": "oid BIGINT, rolname TEXT, rolsuper BOOLEAN, rolinherit BOOLEAN, "
    "rolcreaterole BOOLEAN, rolcreatedb BOOLEAN, rolcanlogin BOOLEAN, rolreplication BOOLEAN, "
    "rolconnlimit INT, rolvaliduntil TIMESTAMP, rolbypassrls BOOLEAN",
    "pg_auth_members": "roleid BIGINT, member BIGINT, grantor BIGINT, admin_option BOOLEAN",
    "pg_user": "usename TEXT, usesysid BIGINT, usesuper BOOLEAN, usecreatedb BOOLEAN",
    "pg_database": "oid BIGINT, datname TEXT, datdba BIGINT, encoding INT, datcollate TEXT, "
    "datctype TEXT, datistemplate BOOLEAN, datallowconn BOOLEAN, datacl TEXT[]",
    "pg_settings": "name TEXT, setting TEXT, unit TEXT, category TEXT, short_desc TEXT",
    "pg_proc": "oid BIGINT, proname TEXT, pronamespace BIGINT, proowner BIGINT, prolang BIGINT, "
    "prokind TEXT, prorettype BIGINT, proargtypes TEXT, prosrc TEXT, proretset BOOLEAN",
    "pg_tables": "schemaname TEXT, tablename TEXT, tableowner TEXT, tablespace TEXT, "
    "hasindexes BOOLEAN, hasrules BOOLEAN, hastriggers BOOLEAN, rowsecurity BOOLEAN",
    "pg_views": "schemaname TEXT, viewname TEXT, viewowner TEXT, definition TEXT",
    "pg_matviews": "schemaname TEXT, matviewname TEXT, matviewowner TEXT, tablespace TEXT, "
    "hasindexes BOOLEAN, ispopulated BOOLEAN, definition TEXT",
    "pg_collation": "oid BIGINT, collname TEXT, collnamespace BIGINT, collprovider TEXT, "
    "collisdeterministic BOOLEAN",
    "pg_inherits": "inhrelid BIGINT, inhparent BIGINT, inhseqno INT, inhdetachpending BOOLEAN",
    "pg_enum": "oid BIGINT, enumtypid BIGINT, enumsortorder REAL, enumlabel TEXT",
    "pg_range": "rngtypid BIGINT, rngsubtype BIGINT",
    "pg_extension": "oid BIGINT, extname TEXT, extnamespace BIGINT, extversion TEXT",
    "pg_policy": "oid BIGINT, polname TEXT, polrelid BIGINT, polcmd TEXT, polpermissive BOOLEAN, "
    "polroles BIGINT[], polqual TEXT, polwithcheck TEXT",
    "pg_trigger": "oid BIGINT, tgrelid BIGINT, tgname TEXT, tgenabled TEXT, tgisinternal BOOLEAN, "
    "tgconstraint BIGINT, tgparentid BIGINT, tgtype SMALLINT",
    "pg_rewrite": "oid BIGINT, rulename TEXT, ev_class BIGINT, ev_enabled TEXT, is_instead BOOLEAN",
    "pg_statistic_ext": "oid BIGINT, stxrelid BIGINT, stxname TEXT, stxnamespace BIGINT, "
    "stxkind TEXT[], stxkeys SMALLINT[], stxstattarget INT",
    "pg_publication": "oid BIGINT, pubname TEXT, puballtables BOOLEAN",
    "pg_publication_rel": "oid BIGINT, prpubid BIGINT, prrelid BIGINT",
    "pg_foreign_table": "ftrelid BIGINT, ftserver BIGINT, ftoptions TEXT[]",
    "pg_foreign_server": "oid BIGINT, srvname TEXT",
    "pg_sequence": "seqrelid BIGINT, seqtypid BIGINT, seqstart BIGINT, seqincrement BIGINT, "
    "seqmax BIGINT, seqmin BIGINT, seqcache BIGINT, seqcycle BOOLEAN",
    "pg_depend": "classid BIGINT, objid BIGINT, objsubid INT, refclassid BIGINT, refobjid BIGINT, "
    "refobjsubid INT, deptype TEXT",
    "pg_partitioned_table": "partrelid BIGINT, partstrat TEXT, partnatts SMALLINT",
    "pg_tablespace": "oid BIGINT, spcname TEXT, spcowner BIGINT",
    "pg_language": "oid BIGINT, lanname TEXT",
    "pg_opclass": "oid BIGINT, opcname TEXT, opcdefault BOOLEAN",
    "pg_stat_activity": "pid INT, datname TEXT, usename TEXT, state TEXT, query TEXT",
    "pg_stat_user_tables": "relid BIGINT, schemaname TEXT, relname TEXT, n_live_tup BIGINT",
    "pg_locks": "pid INT, relation BIGINT, mode TEXT, granted BOOLEAN",
}

TYPES = (
    (16, "bool", 1, "B", "boolean"),
    (17, "bytea", -1, "U", "bytea"),
    (18, "char", 1, "Z", '"char"'),
    (19, "name", 64, "S", "name"),
    (20, "int8", 8, "N", "bigint"),
    (21, "int2", 2, "N", "smallint"),
    (23, "int4", 4, "N", "integer"),
    (25, "text", -1, "S", "text"),
    (26, "oid", 4, "N", "oid"),
    (114, "json", -1, "U", "json"),
    (700, "float4", 4, "N", "real"),
    (701, "float8", 8, "N", "double precision"),
    (1043, "varchar", -1, "S", "character varying"),
    (1082, "date", 4, "D", "date"),
    (1083, "time", 8, "D", "time without time zone"),
    (1114, "timestamp", 8, "D", "timestamp without time zone"),
    (1184, "timestamptz", 8, "D", "timestamp with time zone"),
    (1186, "interval", 16, "T", "interval"),
    (1700, "numeric", -1, "N", "numeric"),
    (2950, "uuid", 16, "U", "uuid"),
)
_NAMES = " ".join(f"WHEN {oid} THEN {quoted_text(text)}" for oid, _, _, _, text in TYPES)
_MODIFIED = (
    "CASE WHEN t = 1700 AND m > 0 "
    "THEN '(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')' ELSE '' END"
)

MACROS = (
    f"format_type(t, m) AS CASE t {_NAMES} ELSE '???' END || {_MODIFIED}",
    "pg_table_is_visible(o) AS true",
    "pg_type_is_visible(o) AS true",
    "pg_collation_is_visible(o) AS true",
    "pg_function_is_visible(o) AS true",
    "pg_get_userbyid(o) AS 'viewlet'",
    "pg_get_expr(e, r, p := false) AS CAST(NULL AS VARCHAR)",
    "pg_get_indexdef(o, c := 0, p := false) AS CAST('' AS VARCHAR)",
    "pg_get_constraintdef(o, p := false) AS (SELECT 'PRIMARY KEY (' || (SELECT "
    "string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg.pg_attribute a WHERE a.attrelid = "
    "c.conrelid AND list_contains(c.conkey, a.attnum)) || ')' FROM pg.pg_constraint c "
    "WHERE c.oid = o)",
    "pg_get_viewdef(o, p := false) AS (SELECT definition FROM pg.pg_matviews m JOIN pg.pg_class c "
    "ON c.relname = m.matviewname WHERE c.oid = o)",
    "pg_get_partkeydef(o) AS CAST(NULL AS VARCHAR)",
    "pg_get_statisticsobjdef_columns(o) AS CAST(NULL AS VARCHAR)",
    "pg_get_serial_sequence(t, c) AS CAST(NULL AS VARCHAR)",
    "pg_relation_is_publishable(o) AS false",
    "pg_relation_size(o) AS CAST(0 AS BIGINT)",
    "pg_total_relation_size(o) AS CAST(0 AS BIGINT)",
    "pg_size_pretty(n) AS CAST(n AS VARCHAR) || ' bytes'",
    "pg_encoding_to_char(e) AS 'UTF8'",
    "pg_is_in_recovery() AS false",
    "pg_backend_pid() AS 1",
    "obj_description(o, c := '') AS CAST(NULL AS VARCHAR)",
    "col_description(o, c) AS CAST(NULL AS VARCHAR)",
    "shobj_description(o, c) AS CAST(NULL AS VARCHAR)",
    "has_table_privilege(a, b := '', c := '') AS true",
    "has_schema_privilege(a, b := '', c := '') AS true",
    "has_database_privilege(a, b := '', c := '') AS true",
    f"version() AS 'PostgreSQL {VERSION} (viewlet)'",
    "current_schema() AS 'public'",
    "current_schemas(x) AS ['pg_catalog', 'public']",
    "current_database() AS 'viewlet'",
    "current_setting(n, missing := false) AS (SELECT setting FROM pg.pg_settings WHERE name = n)",
    "set_config(n, v, l) AS v",
    "quote_ident(n) AS n",
    "to_regtype(n) AS (SELECT oid FROM pg.pg_type WHERE typname = n)",
    "to_regclass(n) AS (SELECT oid FROM pg.pg_class WHERE relname = n)",
    "regclass_oid(n) AS (SELECT oid FROM pg.pg_class WHERE relname = "
    "replace(regexp_replace(n, '^(public|pg_catalog)\\.', ''), '\"', ''))",
    "regclass_name(o) AS (SELECT relname FROM pg.pg_class WHERE oid = o)",
    "regtype_oid(n) AS (SELECT oid FROM pg.pg_type WHERE typname = n)",
    "regtype_name(o) AS format_type(o, -1)",
    "regproc_oid(n) AS CAST(NULL AS BIGINT)",
    "regproc_name(o) AS CAST(o AS VARCHAR)",
    "regnamespace_oid(n) AS (SELECT oid FROM pg.pg_namespace WHERE nspname = n)",
    "regnamespace_name(o) AS (SELECT nspname FROM pg.pg_namespace WHERE oid = o)",
)

SETTINGS = {
    "server_version": VERSION,
    "server_version_num": "130000",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "transaction_isolation": "serializable",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "off",
    "transaction_read_only": "off",
    "search_path": "public",
    "max_identifier_length": "63",
    "lc_collate": "C",
    "is_superuser": "off",
}


class WireCatalog:
    """The catalogs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._connection: Any = None
        self._definitions: object = None

    def query(self, text: str, cancellation: Cancellation | None = None) -> pa.Table | None:
        """The answer to a query of catalogs; None if it reads tables or views."""
        relations = {*self._database.tables, *self._database.views}
        translated = catalog_text(text, TABLES, relations)
        if translated is None:
            return None
        with self._lock:
            self._refresh()
            with interrupted(self._connection, SECONDS, cancellation):
                return guarded(lambda: self._connection.sql(translated).to_arrow_table())

    def _refresh(self) -> None:
        definitions = self._database._state.definitions
        if definitions is self._definitions:
            return
        if self._connection is not None:
            self._connection.close()
        connection = duckdb_connection()
        connection.execute("SET enable_external_access = false")
        connection.execute("CREATE SCHEMA pg; CREATE SCHEMA info")
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE pg.{name} ({columns})")
        for name, rows in information_tables(definitions).items():
            connection.register("rows_of_it", rows())
            connection.execute(f"CREATE TABLE info.{name} AS SELECT * FROM rows_of_it")
            connection.unregister("rows_of_it")
        for macro in MACROS:
            connection.execute(f"CREATE OR REPLACE MACRO {macro}")
        self._fill(connection)
        connection.execute("SET lock_configuration = true")
        self._connection, self._definitions = connection, definitions

    def _fill(self, connection: Any) -> None:
        database = self._database
        put = _Inserter(connection)
        for oid, name in ((PUBLIC, "public"), (PG_CATALOG, "pg_catalog")):
            put("pg.pg_namespace", oid=oid, nspname=name, nspowner=OWNER)
        put("pg.pg_namespace", oid=INFORMATION_SCHEMA, nspname="information_schema", nspowner=OWNER)
        put("pg.pg_roles", oid=OWNER, rolname="viewlet", rolsuper=False, rolcanlogin=True)
        put("pg.pg_user", usename="viewlet", usesysid=OWNER, usesuper=False)
        put("pg.pg_am", oid=2, amname="heap", amtype="t")
        put(
            "pg.pg_database",
            oid=1,
            datname="viewlet",
            datdba=OWNER,
            encoding=6,
            datcollate="C",
            datctype="C",
            datistemplate=False,
            datallowconn=True,
        )
        for name, setting in SETTINGS.items():
            put("pg.pg_settings", name=name, setting=setting)
        for oid, name, size, category, _ in TYPES:
            put(
                "pg.pg_type",
                oid=oid,
                typname=name,
                typnamespace=PG_CATALOG,
                typowner=OWNER,
                typlen=size,
                typtype="b",
                typcategory=category,
                typisdefined=True,
                typdelim=",",
                typrelid=0,
                typelem=0,
                typarray=0,
                typnotnull=False,
                typbasetype=0,
                typtypmod=-1,
                typndims=0,
                typcollation=0,
            )
        for number, name in enumerate((*database.tables, *database.views)):
            self._put_relation(put, FIRST_OID + 10 * number, database.schema(name))

    def _put_relation(self, put: _Inserter, oid: int, schema: RelationSchema) -> None:
        is_view = schema.kind == "view"
        put(
            "pg.pg_class",
            oid=oid,
            relname=schema.name,
            relnamespace=PUBLIC,
            reltype=0,
            reloftype=0,
            relowner=OWNER,
            relam=2,
            relfilenode=oid,
            reltablespace=0,
            relpages=0,
            reltuples=-1.0,
            reltoastrelid=0,
            relhasindex=bool(schema.key) and not is_view,
            relisshared=False,
            relpersistence="p",
            relkind="m" if is_view else "r",
            relnatts=len(schema.columns),
            relchecks=0,
            relhasrules=False,
            relhastriggers=False,
            relhassubclass=False,
            relrowsecurity=False,
            relforcerowsecurity=False,
            relispopulated=True,
            relreplident="d",
            relispartition=False,
        )
        if is_view:
            put(
                "pg.pg_matviews",
                schemaname="public",
                matviewname=schema.name,
                matviewowner="viewlet",
                ispopulated=True,
                definition=schema.sql,
            )
        else:
            put("pg.pg_tables", schemaname="public", tablename=schema.name, tableowner="viewlet")
        names = [column.name for column in schema.columns]
        for number, column in enumerate(schema.columns, 1):
            type_oid = wire_oid(column.type)
            modifier = _modifier(column.type)
            put(
                "pg.pg_attribute",
                attrelid=oid,
                attname=column.name,
                atttypid=type_oid,
                attlen=-1,
                attnum=number,
                attndims=0,
                atttypmod=modifier,
                attnotnull=not column.nullable,
                atthasdef=False,
                attidentity="",
                attgenerated="",
                attisdropped=False,
                attislocal=True,
                attcollation=0,
                attstorage="p",
                attcompression="",
            )
        if schema.key and not is_view:
            self._put_key(put, oid, schema, [names.index(name) + 1 for name in schema.key])

    def _put_key(
        self, put: _Inserter, oid: int, schema: RelationSchema, numbers: list[int]
    ) -> None:
        name = f"{schema.name}_pkey"
        put(
            "pg.pg_class",
            oid=oid + 1,
            relname=name,
            relnamespace=PUBLIC,
            relowner=OWNER,
            relkind="i",
            relpersistence="p",
            relam=403,
            reltablespace=0,
            relispartition=False,
        )
        put(
            "pg.pg_index",
            indexrelid=oid + 1,
            indrelid=oid,
            indnatts=len(numbers),
            indnkeyatts=len(numbers),
            indisunique=True,
            indisprimary=True,
            indisexclusion=False,
            indimmediate=True,
            indisclustered=False,
            indisvalid=True,
            indisready=True,
            indislive=True,
            indisreplident=False,
            indkey=numbers,
            indclass=[0] * len(numbers),
            indoption=[0] * len(numbers),
            indcollation=[0] * len(numbers),
        )
        put(
            "pg.pg_constraint",
            oid=oid + 2,
            conname=name,
            connamespace=PUBLIC,
            contype="p",
            condeferrable=False,
            condeferred=False,
            convalidated=True,
            conrelid=oid,
            contypid=0,
            conindid=oid + 1,
            conparentid=0,
            confrelid=0,
            conislocal=True,
            coninhcount=0,
            connoinherit=True,
            conkey=numbers,
        )


def _modifier(type_text: str) -> int:
    """DECIMAL(12,2) -> what PostgreSQL packs its digits into."""
    if not type_text.startswith("DECIMAL("):
        return -1
    precision, _, scale = type_text[8:-1].partition(",")
    return ((int(precision) << 16) | int(scale or 0)) + 4


class _Inserter:
    """put("pg.pg_class", oid=1, ...): one row, other columns NULL."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __call__(self, table: str, **values: Any) -> None:
        marks = ", ".join("?" for _ in values)
        text = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
        self._connection.execute(text, list(values.values()))
