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
from viewlet.server.pg_shapes import CATALOG_TYPES, MACROS, SETTINGS, TABLES, TYPES, UNDERSCORED
from viewlet.server.pg_types import ARRAYS, wire_oid

if TYPE_CHECKING:
    import pyarrow as pa

SECONDS = 10.0
FIRST_OID = 16_384
PUBLIC, PG_CATALOG, INFORMATION_SCHEMA, OWNER = 2200, 11, 12, 10


class WireCatalog:
    """The catalogs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._connection: Any = None
        self._definitions: object = None
        self._typed: tuple[object, dict[str, dict[str, str]]] = (None, {})

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

    def column_types(self) -> dict[str, dict[str, str]]:
        """The types of all columns of tables, views and catalogs, as SQL writes them."""
        definitions = self._database._state.definitions
        if definitions is not self._typed[0]:
            types = dict(CATALOG_TYPES)
            for name in (*self._database.tables, *self._database.views):
                columns = self._database.schema(name).columns
                types[name] = {column.name: column.type for column in columns}
            self._typed = definitions, types
        return self._typed[1]

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
            connection.execute(f"CREATE TABLE pg.{name} ({columns.replace('OID', 'UINTEGER')})")
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
        put("pg.pg_am", oid=403, amname="btree", amtype="i")
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
            put("pg.pg_settings", name=name, setting=setting, boot_val=setting, reset_val=setting)
        for oid, name, size, category, _ in TYPES:
            plain = f"{name}_" if name in UNDERSCORED else name
            self._put_type(put, oid, name, size, category, plain, array=ARRAYS.get(oid, 0))
            if oid in ARRAYS:
                self._put_type(put, ARRAYS[oid], f"_{name}", -1, "A", "array_", element=oid)
        for number, name in enumerate((*database.tables, *database.views)):
            self._put_relation(put, FIRST_OID + 10 * number, database.schema(name))

    def _put_type(
        self,
        put: _Inserter,
        oid: int,
        name: str,
        size: int,
        category: str,
        functions: str,
        *,
        element: int = 0,
        array: int = 0,
    ) -> None:
        put(
            "pg.pg_type",
            oid=oid,
            typname=name,
            typnamespace=PG_CATALOG,
            typowner=OWNER,
            typlen=size,
            typtype="b",
            typcategory=category,
            typispreferred=False,
            typisdefined=True,
            typdelim=",",
            typrelid=0,
            typelem=element,
            typarray=array,
            typinput=f"{functions}in",
            typoutput=f"{functions}out",
            typreceive=f"{functions}recv",
            typsend=f"{functions}send",
            typnotnull=False,
            typbasetype=0,
            typtypmod=-1,
            typndims=0,
            typcollation=0,
        )

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
