"""The catalogs of PostgreSQL by shape: tables, types, functions and settings as clients ask."""

from __future__ import annotations

from viewlet.server.pg_types import quoted_text

VERSION = "13.0"
"""The version whose catalogs these are like: clients choose their queries by it."""

# OID is an unsigned integer of four bytes, which is what the wire calls such a one.
TABLES = {
    "pg_namespace": "oid OID, nspname TEXT, nspowner OID, nspacl TEXT[]",
    "pg_class": "oid OID, relname TEXT, relnamespace OID, reltype OID, reloftype OID, "
    "relowner OID, relam OID, relfilenode OID, reltablespace OID, relpages INT, "
    "reltuples DOUBLE, relallvisible INT, reltoastrelid OID, relhasindex BOOLEAN, "
    "relisshared BOOLEAN, relpersistence TEXT, relkind TEXT, relnatts SMALLINT, "
    "relchecks SMALLINT, relhasrules BOOLEAN, relhastriggers BOOLEAN, relhassubclass BOOLEAN, "
    "relrowsecurity BOOLEAN, relforcerowsecurity BOOLEAN, relispopulated BOOLEAN, "
    "relreplident TEXT, relispartition BOOLEAN, relrewrite OID, relacl TEXT[], "
    "reloptions TEXT[], relpartbound TEXT, relhasoids BOOLEAN, xmin OID, tableoid OID",
    "pg_attribute": "attrelid OID, attname TEXT, atttypid OID, attstattarget INT, "
    "attlen SMALLINT, attnum SMALLINT, attndims INT, atttypmod INT, attnotnull BOOLEAN, "
    "atthasdef BOOLEAN, atthasmissing BOOLEAN, attidentity TEXT, attgenerated TEXT, "
    "attisdropped BOOLEAN, attislocal BOOLEAN, attcollation OID, attstorage TEXT, "
    "attcompression TEXT, attacl TEXT[], attoptions TEXT[], attfdwoptions TEXT[]",
    "pg_type": "oid OID, typname TEXT, typnamespace OID, typowner OID, typlen SMALLINT, "
    "typtype TEXT, typcategory TEXT, typispreferred BOOLEAN, typisdefined BOOLEAN, "
    "typdelim TEXT, typrelid OID, typelem OID, typarray OID, typinput TEXT, "
    "typoutput TEXT, typreceive TEXT, typsend TEXT, typnotnull BOOLEAN, typbasetype OID, "
    "typtypmod INT, typndims INT, typcollation OID, typdefault TEXT",
    "pg_index": "indexrelid OID, indrelid OID, indnatts SMALLINT, indnkeyatts SMALLINT, "
    "indisunique BOOLEAN, indisprimary BOOLEAN, indisexclusion BOOLEAN, indimmediate BOOLEAN, "
    "indisclustered BOOLEAN, indisvalid BOOLEAN, indisready BOOLEAN, indislive BOOLEAN, "
    "indisreplident BOOLEAN, indkey SMALLINT[], indcollation OID[], indclass OID[], "
    "indoption SMALLINT[], indexprs TEXT, indpred TEXT",
    "pg_constraint": "oid OID, conname TEXT, connamespace OID, contype TEXT, "
    "condeferrable BOOLEAN, condeferred BOOLEAN, convalidated BOOLEAN, conrelid OID, "
    "contypid OID, conindid OID, conparentid OID, confrelid OID, confupdtype TEXT, "
    "confdeltype TEXT, confmatchtype TEXT, conislocal BOOLEAN, coninhcount INT, "
    "connoinherit BOOLEAN, conkey SMALLINT[], confkey SMALLINT[], conexclop OID[], conbin TEXT",
    "pg_description": "objoid OID, classoid OID, objsubid INT, description TEXT",
    "pg_attrdef": "oid OID, adrelid OID, adnum SMALLINT, adbin TEXT",
    "pg_am": "oid OID, amname TEXT, amhandler TEXT, amtype TEXT",
    "pg_roles": "oid OID, rolname TEXT, rolsuper BOOLEAN, rolinherit BOOLEAN, "
    "rolcreaterole BOOLEAN, rolcreatedb BOOLEAN, rolcanlogin BOOLEAN, rolreplication BOOLEAN, "
    "rolconnlimit INT, rolvaliduntil TIMESTAMP, rolbypassrls BOOLEAN",
    "pg_auth_members": "roleid OID, member OID, grantor OID, admin_option BOOLEAN",
    "pg_user": "usename TEXT, usesysid OID, usesuper BOOLEAN, usecreatedb BOOLEAN",
    "pg_database": "oid OID, datname TEXT, datdba OID, encoding INT, datcollate TEXT, "
    "datctype TEXT, datistemplate BOOLEAN, datallowconn BOOLEAN, datacl TEXT[]",
    "pg_settings": "name TEXT, setting TEXT, unit TEXT, category TEXT, short_desc TEXT, "
    "extra_desc TEXT, context TEXT, vartype TEXT, source TEXT, min_val TEXT, max_val TEXT, "
    "enumvals TEXT[], boot_val TEXT, reset_val TEXT, sourcefile TEXT, sourceline INT, "
    "pending_restart BOOLEAN",
    "pg_proc": "oid OID, proname TEXT, pronamespace OID, proowner OID, prolang OID, "
    "prokind TEXT, prorettype OID, proargtypes TEXT, prosrc TEXT, proretset BOOLEAN",
    "pg_tables": "schemaname TEXT, tablename TEXT, tableowner TEXT, tablespace TEXT, "
    "hasindexes BOOLEAN, hasrules BOOLEAN, hastriggers BOOLEAN, rowsecurity BOOLEAN",
    "pg_views": "schemaname TEXT, viewname TEXT, viewowner TEXT, definition TEXT",
    "pg_matviews": "schemaname TEXT, matviewname TEXT, matviewowner TEXT, tablespace TEXT, "
    "hasindexes BOOLEAN, ispopulated BOOLEAN, definition TEXT",
    "pg_collation": "oid OID, collname TEXT, collnamespace OID, collprovider TEXT, "
    "collisdeterministic BOOLEAN",
    "pg_inherits": "inhrelid OID, inhparent OID, inhseqno INT, inhdetachpending BOOLEAN",
    "pg_enum": "oid OID, enumtypid OID, enumsortorder REAL, enumlabel TEXT",
    "pg_range": "rngtypid OID, rngsubtype OID, rngmultitypid OID",
    "pg_extension": "oid OID, extname TEXT, extnamespace OID, extversion TEXT",
    "pg_policy": "oid OID, polname TEXT, polrelid OID, polcmd TEXT, polpermissive BOOLEAN, "
    "polroles OID[], polqual TEXT, polwithcheck TEXT",
    "pg_trigger": "oid OID, tgrelid OID, tgname TEXT, tgenabled TEXT, tgisinternal BOOLEAN, "
    "tgconstraint OID, tgparentid OID, tgtype SMALLINT",
    "pg_rewrite": "oid OID, rulename TEXT, ev_class OID, ev_enabled TEXT, is_instead BOOLEAN",
    "pg_statistic_ext": "oid OID, stxrelid OID, stxname TEXT, stxnamespace OID, "
    "stxkind TEXT[], stxkeys SMALLINT[], stxstattarget INT",
    "pg_publication": "oid OID, pubname TEXT, puballtables BOOLEAN",
    "pg_publication_rel": "oid OID, prpubid OID, prrelid OID",
    "pg_foreign_table": "ftrelid OID, ftserver OID, ftoptions TEXT[]",
    "pg_foreign_server": "oid OID, srvname TEXT",
    "pg_sequence": "seqrelid OID, seqtypid OID, seqstart BIGINT, seqincrement BIGINT, "
    "seqmax BIGINT, seqmin BIGINT, seqcache BIGINT, seqcycle BOOLEAN",
    "pg_depend": "classid OID, objid OID, objsubid INT, refclassid OID, refobjid OID, "
    "refobjsubid INT, deptype TEXT",
    "pg_partitioned_table": "partrelid OID, partstrat TEXT, partnatts SMALLINT",
    "pg_tablespace": "oid OID, spcname TEXT, spcowner OID",
    "pg_language": "oid OID, lanname TEXT",
    "pg_opclass": "oid OID, opcname TEXT, opcdefault BOOLEAN",
    "pg_stat_activity": "pid INT, datname TEXT, usename TEXT, state TEXT, query TEXT",
    "pg_stat_user_tables": "relid OID, schemaname TEXT, relname TEXT, n_live_tup BIGINT",
    "pg_locks": "pid INT, relation OID, mode TEXT, granted BOOLEAN",
}

CATALOG_TYPES = {
    name: dict(column.split(" ", 1) for column in columns.split(", "))
    for name, columns in TABLES.items()
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
    "max_index_keys": "32",
    "lc_collate": "C",
    "is_superuser": "off",
}
_SETTINGS = " ".join(
    f"WHEN {quoted_text(name.lower())} THEN {quoted_text(value)}"
    for name, value in SETTINGS.items()
)

UNDERSCORED = ("json", "date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid")
"""Types whose functions are json_in, json_out and so on; those of others are int4in, int4out."""
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
    f"current_setting(n, missing := false) AS CASE lower(n) {_SETTINGS} END",
    "string_to_array(a, b) AS TABLE SELECT string_split(a, b)",
    "set_config(n, v, l) AS v",
    "quote_ident(n) AS CASE WHEN regexp_full_match(n, '[a-z_][a-z0-9_]*') THEN n ELSE "
    "'\"' || replace(n, '\"', '\"\"') || '\"' END",
    "array_lower(a, d) AS CASE WHEN len(a) > 0 THEN 1 END",
    "array_upper(a, d) AS CASE WHEN len(a) > 0 THEN len(a) END",
    "_pg_expandarray(a) AS unnest([{'x': a[i], 'n': i} for i in range(1, len(a) + 1)])",
    "parse_ident(n) AS string_split(replace(n, '\"', ''), '.')",
    "pg_get_keywords() AS TABLE SELECT keyword_name AS word, keyword_category[1] AS catcode, "
    "keyword_category AS catdesc FROM duckdb_keywords()",
    "pg_stat_get_numscans(o) AS CAST(0 AS BIGINT)",
    "pg_get_function_identity_arguments(o) AS CAST('' AS VARCHAR)",
    "pg_get_function_result(o) AS CAST('' AS VARCHAR)",
    "pg_get_triggerdef(o, p := false) AS CAST(NULL AS VARCHAR)",
    "pg_get_ruledef(o, p := false) AS CAST(NULL AS VARCHAR)",
    "pg_indexes_size(o) AS CAST(0 AS BIGINT)",
    "pg_table_size(o) AS CAST(0 AS BIGINT)",
    "pg_database_size(o) AS CAST(0 AS BIGINT)",
    "pg_tablespace_location(o) AS CAST('' AS VARCHAR)",
    "pg_postmaster_start_time() AS CAST('2000-01-01' AS TIMESTAMP)",
    "has_column_privilege(a, b, c := '') AS true",
    "has_any_column_privilege(a, b := '', c := '') AS true",
    "has_sequence_privilege(a, b := '', c := '') AS true",
    "to_regtype(n) AS (SELECT oid FROM pg.pg_type WHERE typname = n)",
    "to_regclass(n) AS (SELECT oid FROM pg.pg_class WHERE relname = n)",
    "regclass_oid(n) AS (SELECT oid FROM pg.pg_class WHERE relname = regexp_replace("
    "replace(trim(n), '\"', ''), '^(public|pg_catalog)\\s*\\.\\s*', '') "
    "OR CAST(oid AS VARCHAR) = n)",
    "regclass_name(o) AS (SELECT relname FROM pg.pg_class WHERE oid = o)",
    "regtype_oid(n) AS (SELECT oid FROM pg.pg_type WHERE typname = n)",
    "regtype_name(o) AS format_type(o, -1)",
    "regproc_oid(n) AS CAST(NULL AS UINTEGER)",
    "regproc_name(o) AS CAST(o AS VARCHAR)",
    "regnamespace_oid(n) AS (SELECT oid FROM pg.pg_namespace WHERE nspname = n)",
    "regnamespace_name(o) AS (SELECT nspname FROM pg.pg_namespace WHERE oid = o)",
)
