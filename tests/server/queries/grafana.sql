-- What Grafana's PostgreSQL source asks: its configuration page, its query editor, and panels.

SELECT current_setting('server_version_num')::int/100 AS version;

SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';

SELECT
  CASE WHEN quote_ident(table_schema) IN (
  SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
  FROM generate_series(
      array_lower(string_to_array(current_setting('search_path'),','),1),
      array_upper(string_to_array(current_setting('search_path'),','),1)
    ) as i,
    string_to_array(current_setting('search_path'),',') s
)
  THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog',
  '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental')
ORDER BY CASE WHEN quote_ident(table_schema) IN (
  SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
  FROM generate_series(
      array_lower(string_to_array(current_setting('search_path'),','),1),
      array_upper(string_to_array(current_setting('search_path'),','),1)
    ) as i,
    string_to_array(current_setting('search_path'),',') s
) THEN 0 ELSE 1 END, 1;

SELECT quote_ident(column_name) AS "column", data_type AS "type"
FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('sales'), 1) = 2
  THEN quote_ident(table_schema) = (parse_ident('sales'))[1] AND quote_ident(table_name) = (parse_ident('sales'))[2]
  ELSE quote_ident(table_name) = 'sales' AND quote_ident(table_schema) IN (
  SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
  FROM generate_series(
      array_lower(string_to_array(current_setting('search_path'),','),1),
      array_upper(string_to_array(current_setting('search_path'),','),1)
    ) as i,
    string_to_array(current_setting('search_path'),',') s
) END;

SELECT quote_ident(table_name) AS "table" FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND quote_ident(table_schema) IN (
  SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
  FROM generate_series(
      array_lower(string_to_array(current_setting('search_path'),','),1),
      array_upper(string_to_array(current_setting('search_path'),','),1)
    ) as i,
    string_to_array(current_setting('search_path'),',') s
);

SELECT floor(extract(epoch from moment)/60)*60 AS "time", avg(weight) AS w FROM sales
WHERE moment BETWEEN '2024-01-01T00:00:00Z' AND '2024-12-31T00:00:00Z' GROUP BY 1 ORDER BY 1;

SELECT floor(extract(epoch from moment)/300)*300 AS "time", shop AS metric, sum(price) AS value FROM sales
WHERE extract(epoch from moment) >= 1704067200 AND extract(epoch from moment) <= 1735603200 GROUP BY 1, 2 ORDER BY 1, 2;

SELECT moment AS "time", price AS value FROM "public"."sales"
WHERE moment BETWEEN '2024-01-01T00:00:00Z' AND '2024-12-31T00:00:00Z' ORDER BY moment LIMIT 50;

SELECT date_trunc('hour', moment) AS "time", count(*) AS "sales" FROM sales WHERE shop IN ('north', 'south') GROUP BY 1 ORDER BY 1;

SELECT "shop" AS metric, total FROM "public"."totals" LIMIT 50;

SELECT DISTINCT shop FROM sales ORDER BY shop;

SELECT shop AS __text, shop AS __value FROM totals WHERE shop ~* 'n.*' LIMIT 10;
