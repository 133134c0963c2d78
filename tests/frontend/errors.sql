-- Bad statements, each followed by the error it must give: kind, line:column, message, hint.

SELEC a FROM r
--! ParseError 1:1 | 'SELEC' does not start a statement | did you mean SELECT?

CREATE VIEW v AS SELECT FROM
--! ParseError 1:25 | expected table name, near 'FROM' | after 'FROM' the text ends

CREATE VIEW v AS SELECT a FROM r WHERE
--! ParseError 1:34 | something is missing near 'WHERE' | after 'WHERE' the text ends

CREATE VIEW v AS SELECT a FROM r GROUP
--! ParseError 1:34 | unexpected 'GROUP' | quote it as "GROUP" if it is a name

CREATE VIEW v AS SELECT a, FROM r
--! ParseError 1:28 | unexpected 'FROM' after a comma | -

CREATE VIEW v AS SELECT (a FROM r
--! ParseError 1:28 | expecting ), near 'FROM' | -

CREATE VIEW v AS SELECT 'abc FROM r
--! ParseError 1:25 | a string, quoted name or comment is not closed | write '' for a quote inside of a string

CREATE VIEW v AS SELECT a FROM r WHERE a = = 1
--! ParseError 1:44 | something is missing near '=' | -

CREATE VIEW v
--! ParseError 1:1 | view v has no query | write AS SELECT ...

CREATE VIEW v AS
--! ParseError 1:1 | view v has no query | write AS SELECT ...

CREATE INDEX i ON r (a)
--! UnsupportedError 1:1 | CREATE INDEX is not supported | create a TABLE, a STREAM or a MATERIALIZED VIEW

CREATE FUNCTION f() RETURNS INT AS 'x'
--! UnsupportedError 1:1 | CREATE FUNCTION is not supported | create a TABLE, a STREAM or a MATERIALIZED VIEW

GRANT SELECT ON r TO x
--! UnsupportedError 1:1 | GRANT is not a statement of viewlet | statements are CREATE TABLE, STREAM or MATERIALIZED VIEW, INSERT, DELETE, UPDATE, MERGE, TRUNCATE, COPY, DROP, REFRESH, ALTER TABLE, ALTER VIEW and SELECT

CREATE TABLE
--! ParseError 1:8 | expected table name, near 'TABLE' | after 'TABLE' the text ends

CREATE TABLE z ()
--! ParseError 1:1 | the table has no columns | write (a INT, ...)

CREATE TABLE z (a)
--! ParseError 1:17 | column a has no type | -

CREATE TABLE z (a BLOB)
--! UnsupportedError 1:17 | type BYTEA is not supported | use BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL(p,s), DATE, TIMESTAMP or VARCHAR

CREATE TABLE z (a INT[])
--! UnsupportedError 1:17 | type INT[] is not supported | use BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL(p,s), DATE, TIMESTAMP or VARCHAR

CREATE TABLE z (a DECIMAL(50,2))
--! TypingError 1:27 | DECIMAL(50,2) is not a type | precision is 1 to 38, scale 0 to the precision

CREATE TABLE z (a DECIMAL(5,9))
--! TypingError 1:27 | DECIMAL(5,9) is not a type | precision is 1 to 38, scale 0 to the precision

CREATE TABLE z (a INT, a INT)
--! ResolutionError 1:24 | column a is declared twice | -

CREATE TABLE z (a INT, PRIMARY KEY (q))
--! ResolutionError 1:14 | the primary key names q, which z does not have | known are a

CREATE TABLE z (a INT PRIMARY KEY, b INT, PRIMARY KEY (b))
--! ParseError 1:56 | z has two primary keys | -

CREATE TABLE z (a INT DEFAULT RANDOM())
--! UnsupportedError 1:31 | DEFAULT RANDOM() is not a constant | write a constant, and give other values with the rows

CREATE TABLE z (a INT CHECK (q > 1))
--! ResolutionError 1:30 | no column q | known are a

CREATE TABLE z (a INT) WITH (fast = true)
--! UnsupportedError 1:24 | option fast=TRUE is not supported | the only option is WITH (static = true)

CREATE STREAM z (a INT) WITH (static = true)
--! UnsupportedError 1:15 | a stream cannot be static | use CREATE TABLE

CREATE TABLE db.z (a INT)
--! UnsupportedError 1:14 | schemas are not supported: db.z | -

CREATE TABLE "a b" (a INT)
--! UnsupportedError 1:14 | table name 'a b' is not supported | use letters, digits and _

CREATE VIEW v AS SELECT q FROM r
--! ResolutionError 1:25 | no column q | known are a, b, c, d, e

CREATE VIEW v AS SELECT a FROM rr
--! ResolutionError 1:32 | no table, stream or view rr | did you mean r?

CREATE VIEW v AS SELECT aa FROM r
--! ResolutionError 1:25 | no column aa | did you mean a?

CREATE VIEW v AS SELECT z.a FROM r
--! ResolutionError 1:25 | no table z in FROM | known are r

CREATE VIEW v AS SELECT r.q FROM r
--! ResolutionError 1:25 | r has no column q | known are a, b, c, d, e

CREATE VIEW v AS SELECT b FROM r, s
--! ResolutionError 1:25 | column b is ambiguous: r and s have it | write r.b

CREATE VIEW v AS SELECT r.a FROM r, r
--! ResolutionError 1:37 | r is in FROM more than once | give one of them another name, as in r AS r2

CREATE VIEW v AS SELECT x.a FROM r AS x JOIN s AS x ON true
--! ResolutionError 1:46 | x is in FROM more than once | give one of them another name, as in x AS x2

CREATE VIEW v AS SELECT a FROM pub.r
--! UnsupportedError 1:32 | schemas are not supported: pub.r | write r

CREATE VIEW v (p, q) AS SELECT a FROM r
--! ResolutionError 1:13 | view v names 2 columns and has 1 | -

CREATE VIEW v AS SELECT * FROM r JOIN s USING (zz)
--! ResolutionError 1:48 | USING: column zz is not there in r | -

CREATE VIEW v AS SELECT r.a FROM r JOIN s ON r.b = s.bb
--! ResolutionError 1:52 | s has no column bb | did you mean b?

CREATE VIEW v AS SELECT a FROM r JOIN s
--! UnsupportedError 1:34 | the join has no condition | add ON ..., or CROSS JOIN

CREATE VIEW v AS SELECT r.a FROM r, s JOIN u ON u.b = r.b
--! ResolutionError 1:55 | no table r in FROM | known are s, u

CREATE VIEW v AS SELECT "A" FROM r
--! ResolutionError 1:25 | no column A | did you mean a?

CREATE VIEW v AS SELECT a FROM v
--! ResolutionError 1:32 | no table, stream or view v | known are r, s, t, u

CREATE VIEW v AS SELECT a + e FROM r
--! TypingError 1:29 | operator + needs a number, e is VARCHAR | -

CREATE VIEW v AS SELECT a FROM r WHERE e > 5
--! TypingError 1:40 | the comparison mixes INTEGER and VARCHAR | convert with CAST(... AS type)

CREATE VIEW v AS SELECT a FROM r WHERE a
--! TypingError 1:40 | WHERE needs a condition, a is INTEGER | compare it with something, for instance <> 0

CREATE VIEW v AS SELECT a FROM r WHERE a AND b = 1
--! TypingError 1:40 | WHERE needs a condition, a is INTEGER | compare it with something, for instance <> 0

CREATE VIEW v AS SELECT a FROM r WHERE d = 5
--! TypingError 1:40 | the comparison mixes DATE and INTEGER | convert with CAST(... AS type)

CREATE VIEW v AS SELECT a FROM r WHERE d > 'yesterday'
--! TypingError 1:40 | 'yesterday' does not read as DATE | write dates as DATE '1998-12-01'

CREATE VIEW v AS SELECT a FROM r WHERE d > DATE '2020-13-01'
--! TypingError 1:49 | '2020-13-01' does not read as DATE | write dates as DATE '1998-12-01'

CREATE VIEW v AS SELECT NOT a FROM r
--! TypingError 1:29 | NOT needs a condition, a is INTEGER | compare it with something, for instance <> 0

CREATE VIEW v AS SELECT -e FROM r
--! TypingError 1:26 | - needs a number, e is VARCHAR | -

CREATE VIEW v AS SELECT UPPER(a) FROM r
--! TypingError 1:31 | UPPER needs a VARCHAR, a is INTEGER | write CAST(a AS VARCHAR)

CREATE VIEW v AS SELECT a LIKE 'x' FROM r
--! TypingError 1:25 | LIKE needs a VARCHAR, a is INTEGER | write CAST(a AS VARCHAR)

CREATE VIEW v AS SELECT SUM(e) FROM r
--! TypingError 1:29 | SUM needs a number, e is VARCHAR | -

CREATE VIEW v AS SELECT AVG(d) FROM r
--! TypingError 1:29 | AVG needs a number, d is DATE | -

CREATE VIEW v AS SELECT CASE WHEN a > 1 THEN a ELSE e END FROM r
--! TypingError 1:35 | CASE mixes INTEGER and VARCHAR | convert with CAST(... AS type)

CREATE VIEW v AS SELECT CASE WHEN a THEN 1 END FROM r
--! TypingError 1:35 | WHEN needs a condition, a is INTEGER | compare it with something, for instance <> 0

CREATE VIEW v AS SELECT COALESCE(a, d) FROM r
--! TypingError 1:25 | COALESCE mixes DATE and INTEGER | convert with CAST(... AS type)

CREATE VIEW v AS SELECT CAST(e AS INT) FROM r
--! TypingError 1:30 | VARCHAR cannot be cast to INTEGER | -

CREATE VIEW v AS SELECT CAST(d AS INT) FROM r
--! TypingError 1:30 | DATE cannot be cast to INTEGER | -

CREATE VIEW v AS SELECT EXTRACT(YEAR FROM a) FROM r
--! TypingError 1:43 | EXTRACT needs a date, a is INTEGER | -

CREATE VIEW v AS SELECT EXTRACT(ERA FROM d) FROM r
--! UnsupportedError 1:42 | EXTRACT(ERA ...) is not supported | parts are YEAR, QUARTER, MONTH, DAY, HOUR, MINUTE, SECOND, DOW, DOY, WEEK, ISODOW, ISOYEAR, DECADE, CENTURY, MILLENNIUM, MILLISECOND, MICROSECOND and EPOCH

CREATE VIEW v AS SELECT a + INTERVAL '1' DAY FROM r
--! TypingError 1:25 | an interval cannot be added to INTEGER | -

CREATE VIEW v AS SELECT d + INTERVAL '1 fortnight' FROM r
--! UnsupportedError 1:25 | interval INTERVAL '1 FORTNIGHT' is not supported | write numbers and units, as in INTERVAL '3' MONTH or INTERVAL '1 day 2 hours'

CREATE VIEW v AS SELECT d + INTERVAL '1 day garbage' FROM r
--! UnsupportedError 1:25 | interval INTERVAL '1 DAY' is not supported | write numbers and units, as in INTERVAL '3' MONTH or INTERVAL '1 day 2 hours'

CREATE VIEW v AS SELECT ts - ts FROM t
--! UnsupportedError 1:25 | a difference of timestamps is an interval, which no column can have | write EXTRACT(EPOCH FROM a - b) or DATE_DIFF('second', b, a)

CREATE VIEW v AS SELECT DATE_BIN('1 month', ts) FROM t
--! UnsupportedError 1:34 | DATE_BIN with months is not supported | use DATE_TRUNC('month', ...) for months, quarters and years

CREATE VIEW v AS SELECT DATE_BIN(a, ts) FROM t
--! TypingError 1:34 | DATE_BIN needs an INTERVAL, not a | -

CREATE VIEW v AS SELECT TIME_BUCKET('0 s', ts) FROM t
--! TypingError 1:37 | TIME_BUCKET needs a positive INTERVAL | -

CREATE VIEW v AS SELECT DATE_DIFF('fortnight', ts, ts) FROM t
--! UnsupportedError 1:25 | DATE_DIFF has no unit fortnight | units are year, quarter, month, week, day, hour, minute, second, millisecond, microsecond

CREATE VIEW v AS SELECT DATE_TRUNC('century', ts) FROM t
--! UnsupportedError 1:25 | DATE_TRUNC('century', ...) is not supported | units are year, quarter, month, week, day, hour, minute, second, decade, millisecond, microsecond

CREATE VIEW v AS SELECT INTERVAL '1' DAY FROM r
--! UnsupportedError 1:34 | an interval can only be added to or subtracted from a date | write d + INTERVAL '3' MONTH

CREATE VIEW v AS SELECT a FROM r WHERE a IN ('x', 'y')
--! TypingError 1:40 | 'x' does not read as INTEGER | -

CREATE VIEW v AS SELECT a FROM r WHERE a IN (SELECT e FROM r)
--! TypingError 1:40 | the comparison mixes INTEGER and VARCHAR | convert with CAST(... AS type)

CREATE VIEW v AS SELECT a FROM r WHERE a IN (SELECT b, x FROM s)
--! TypingError 1:40 | 1 values are compared with 2 columns | select as many columns as there are values on the left

CREATE VIEW v AS SELECT a FROM r WHERE (a, b) IN (SELECT b FROM s)
--! TypingError 1:41 | 2 values are compared with 1 columns | select as many columns as there are values on the left

CREATE VIEW v AS SELECT a FROM r UNION SELECT b, x FROM s
--! TypingError 1:25 | the sides have 1 and 2 columns | -

CREATE VIEW v AS SELECT a FROM r UNION SELECT e FROM r
--! TypingError 1:25 | column 1 (a) mixes INTEGER and VARCHAR | convert with CAST(... AS type)

CREATE VIEW v AS SELECT a, SUM(b) FROM r
--! TypingError 1:25 | column a is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(a)

CREATE VIEW v AS SELECT a, b, SUM(c) FROM r GROUP BY a
--! TypingError 1:28 | column b is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(b)

CREATE VIEW v AS SELECT a FROM r WHERE SUM(b) > 1
--! UnsupportedError 1:40 | aggregate SUM cannot stand here | conditions on aggregates belong in HAVING

CREATE VIEW v AS SELECT SUM(SUM(a)) FROM r
--! UnsupportedError 1:29 | aggregates cannot be nested | -

CREATE VIEW v AS SELECT a FROM r GROUP BY SUM(b)
--! UnsupportedError 1:43 | aggregates cannot stand in GROUP BY | -

CREATE VIEW v AS SELECT a FROM r GROUP BY 3
--! ResolutionError 1:43 | GROUP BY 3 is not a column of the result | positions are 1 to 1

CREATE VIEW v AS SELECT a FROM r ORDER BY 3
--! ResolutionError 1:43 | ORDER BY 3 is not a column of the result | positions are 1 to 1

CREATE VIEW v AS SELECT a FROM r GROUP BY a HAVING b > 1
--! TypingError 1:52 | column b is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(b)

CREATE VIEW v AS SELECT a FROM r LIMIT 'x'
--! TypingError 1:40 | LIMIT needs a whole number | -

CREATE VIEW v AS SELECT a FROM r LIMIT -1
--! TypingError 1:41 | LIMIT needs a whole number | -

CREATE VIEW v AS WITH RECURSIVE q AS (SELECT a FROM r UNION ALL SELECT a FROM q) SELECT a FROM q
--! UnsupportedError 1:33 | recursive table q is not supported | unroll it to the depth that you need, with joins

CREATE VIEW v AS SELECT RANDOM() FROM r
--! UnsupportedError 1:25 | RANDOM() changes by itself, a view cannot follow it | keep the value in a table and join it

CREATE VIEW v AS SELECT NOW() FROM r
--! UnsupportedError 1:25 | NOW() changes by itself, and cannot stand here | in a view compare it in WHERE with columns of one table, elsewhere give the value

CREATE VIEW v AS SELECT a FROM r WHERE d < CURRENT_DATE OR a = 1
--! UnsupportedError 1:40 | CURRENT_DATE changes by itself, and cannot stand here | in a view compare it in WHERE with columns of one table, elsewhere give the value

CREATE VIEW v AS SELECT a FROM r WHERE b = (SELECT b, x FROM s)
--! TypingError 1:52 | a scalar subquery has 2 columns, not 1 | -

CREATE VIEW v AS SELECT (SELECT MAX(b), MIN(b) FROM s) FROM r
--! TypingError 1:33 | a scalar subquery has 2 columns, not 1 | -

CREATE VIEW v AS SELECT STRING_AGG(e, ',') FROM r
--! UnsupportedError 1:36 | aggregate STRING_AGG is not supported | aggregates are SUM, COUNT, AVG, MIN, MAX, STDDEV, VARIANCE, SKEWNESS, BOOL_AND, BOOL_OR

CREATE VIEW v AS SELECT my_function(a) FROM r
--! ResolutionError 1:25 | no function my_function | -

CREATE VIEW v AS SELECT substrin(e, 1) FROM r
--! ResolutionError 1:25 | no function substrin | did you mean substring?

CREATE VIEW v AS SELECT a FROM r TABLESAMPLE SYSTEM (10)
--! UnsupportedError 1:54 | TABLESAMPLE is not supported | -

CREATE VIEW v AS SELECT a FROM r FOR UPDATE
--! UnsupportedError 1:25 | FOR UPDATE is not supported | -

CREATE VIEW v AS SELECT a FROM generate_series(1, 3) q(a)
--! UnsupportedError 1:32 | table functions are not supported | -

CREATE VIEW v AS SELECT a FROM r WHERE a = ANY (ARRAY[1, 2])
--! UnsupportedError 1:55 | arrays are not supported | for a list of values write x IN (1, 2, 3)

CREATE VIEW v AS SELECT *
--! ResolutionError 1:25 | * needs a FROM | -

CREATE VIEW v AS SELECT q.* FROM r
--! ResolutionError 1:25 | no table q in FROM | known are r

CREATE VIEW v AS WITH q AS (SELECT a FROM r), q AS (SELECT b FROM s) SELECT a FROM q
--! ResolutionError 1:47 | WITH names q twice | -

CREATE VIEW v AS SELECT w FROM (SELECT a FROM r) q(z, y)
--! ResolutionError 1:40 | 2 column names for 1 columns | -

INSERT INTO r VALUES (a, 1)
--! ResolutionError 1:23 | a is not a constant | -

INSERT INTO r (a, b) VALUES (1)
--! ParseError 1:30 | 1 values for 2 columns | -

INSERT INTO r VALUES (1 + NOW())
--! UnsupportedError 1:27 | NOW() changes by itself, and cannot stand here | in a view compare it in WHERE with columns of one table, elsewhere give the value

COPY r FROM 'x.orc'
--! UnsupportedError 1:13 | the format of 'x.orc' is not known | name the file .csv or .parquet, or add (FORMAT csv)

COPY r TO 'x.csv'
--! UnsupportedError 1:1 | COPY reads one file into a table | write COPY t FROM 'file.csv'

DROP INDEX i
--! UnsupportedError 1:1 | DROP INDEX is not supported | drop a TABLE, a STREAM or a VIEW

CREATE VIEW v AS SELECT a FROM r; SELECT a FROM r WHERE (
--! ParseError 1:57 | something is missing near '(' | after '(' the text ends

CREATE VIEW v AS SELECT a FROM r WHERE a ~ 'x'
--! TypingError 1:40 | REGEXP_LIKE needs a VARCHAR, a is INTEGER | write CAST(a AS VARCHAR)

CREATE VIEW v AS SELECT a FROM r WHERE e ~ '(x'
--! TypingError 1:40 | '(x' is not a regular expression: missing ), unterminated subpattern at position 0 | -

CREATE VIEW v AS SELECT REGEXP_LIKE(e, '(?=x)') AS x FROM r
--! TypingError 1:25 | '(?=x)' is not a regular expression: look-around and references are not supported | -

CREATE VIEW v AS SELECT REGEXP_REPLACE(e, 'x', '\1') AS x FROM r
--! TypingError 1:25 | 'x' is not a regular expression: the pattern has no group 1 | -

CREATE VIEW v AS SELECT REGEXP_EXTRACT(e, '(x)', 2) AS x FROM r
--! TypingError 1:25 | '(x)' is not a regular expression: there is no group 2 | -

CREATE VIEW v AS SELECT a FROM r WHERE e ~ e
--! UnsupportedError 1:40 | REGEXP_LIKE needs a constant regular expression | -

CREATE VIEW v AS SELECT REGEXP_REPLACE(e, 'x', 'y', 'm') AS x FROM r
--! UnsupportedError 1:25 | flags of regular expressions are g and i | -

CREATE VIEW v AS SELECT SPLIT_PART(e, ',') AS x FROM r
--! TypingError 1:25 | SPLIT_PART takes 3 arguments, not 2 | -

CREATE VIEW v AS SELECT REPEAT(e, 'x') AS x FROM r
--! TypingError 1:35 | REPEAT needs an integer, 'x' is VARCHAR | -

CREATE VIEW v AS SELECT c * c * c * c * c * c * c * c * c * c * c * c * c * c * c * c * c * c * c * c AS x FROM r
--! TypingError 1:25 | the product has 40 decimals, at most 38 can be kept | convert one side with CAST(... AS DOUBLE)

CREATE VIEW v AS SELECT TRIM(a FROM e) FROM r
--! TypingError 1:30 | TRIM needs a VARCHAR, a is INTEGER | write CAST(a AS VARCHAR)

CREATE VIEW v AS SELECT ROUND(c, a) FROM r
--! UnsupportedError 1:25 | ROUND needs a constant number of digits | -

CREATE VIEW v AS SELECT COUNT(DISTINCT *) FROM r
--! ParseError 1:40 | * cannot stand here | -

CREATE VIEW v AS SELECT SUM(a, b) FROM r
--! ParseError 1:33 | the number of provided arguments (2) is greater than the maximum number of supported arguments (1), near ')' | -

CREATE VIEW v AS SELECT SUM(*) FROM r
--! TypingError 1:25 | SUM takes one argument | -

CREATE VIEW v AS SELECT a FROM r WHERE EXISTS (SELECT zz FROM s)
--! ResolutionError 1:55 | no column zz | known are a, b, c, d, e, k, x

CREATE VIEW v AS VALUES (1, 2), (3)
--! ResolutionError 1:26 | VALUES lists have different lengths | -

CREATE VIEW v AS
SELECT a,
       qq
FROM r
--! ResolutionError 3:8 | no column qq | known are a, b, c, d, e

CREATE VIEW v AS SELECT a FROM r;

CREATE VIEW w AS
  SELECT a FROM r
  WHERE zz > 1
--! ResolutionError 5:9 | no column zz | known are a, b, c, d, e

CREATE VIEW v AS SELECT a FROM r -- comment
WHERE b = 'x'
--! TypingError 2:7 | 'x' does not read as INTEGER | -

CREATE VIEW v AS SELECT a FROM r LEFT JOIN s
--! UnsupportedError 1:34 | the join has no condition | add ON ..., or CROSS JOIN

CREATE VIEW v AS SELECT s.x FROM r, s ORDER BY s.xx
--! ResolutionError 1:48 | s has no column xx | did you mean x?

CREATE VIEW v AS SELECT a FROM r WHERE (a, b) < (SELECT b, n FROM u)
--! UnsupportedError 1:41 | (a, b) is not supported | -

CREATE VIEW v AS SELECT a FROM r WHERE (a, b) < ALL (SELECT b, n FROM u)
--! UnsupportedError 1:41 | rows compare with = and <> only | -

CREATE VIEW v AS SELECT a FROM r GROUP BY a HAVING SUM(q) > 1
--! ResolutionError 1:56 | no column q | known are a, b, c, d, e

CREATE VIEW v AS SELECT SUM(a) FILTER (WHERE b) FROM r
--! TypingError 1:46 | WHERE needs a condition, b is INTEGER | compare it with something, for instance <> 0

CREATE VIEW v AS SELECT x FROM (SELECT a AS x, b AS x FROM r) q
--! ResolutionError 1:25 | column x is ambiguous: it is there twice | -

DROP TABLE r, s
--! UnsupportedError 1:1 | DROP takes one name | drop one after the other

DROP TABLE r CASCADE
--! UnsupportedError 1:12 | DROP ... CASCADE is not supported | drop what depends on it first

DELETE FROM r LIMIT 1
--! UnsupportedError 1:21 | DELETE ... LIMIT is not supported | select the rows in WHERE, by their key

DELETE FROM r WHERE a > 1 ORDER BY a LIMIT 1
--! UnsupportedError 1:36 | DELETE ... ORDER BY is not supported | select the rows in WHERE, by their key

DELETE r FROM r JOIN s ON r.b = s.b
--! UnsupportedError 1:8 | DELETE t FROM ... JOIN is not supported | write WHERE ... IN (SELECT ...)

DELETE FROM r JOIN s ON r.b = s.b
--! UnsupportedError 1:15 | a JOIN in a change of rows is not supported | write WHERE ... IN (SELECT ...)

WITH q AS (SELECT 1) DELETE FROM r
--! UnsupportedError 1:6 | WITH before DELETE is not supported | put the query into WHERE

UPDATE r SET b = 9 LIMIT 1
--! UnsupportedError 1:26 | UPDATE ... LIMIT is not supported | select the rows in WHERE, by their key

UPDATE r SET b = 9 ORDER BY a LIMIT 1
--! UnsupportedError 1:29 | UPDATE ... ORDER BY is not supported | select the rows in WHERE, by their key

UPDATE r JOIN s ON r.b = s.b SET a = 1
--! UnsupportedError 1:10 | a JOIN in a change of rows is not supported | write WHERE ... IN (SELECT ...)

UPDATE r SET b = 1, b = 2
--! ParseError 1:21 | SET names b twice | -

WITH q AS (SELECT 1) UPDATE r SET b = 1
--! UnsupportedError 1:6 | WITH before UPDATE is not supported | put the query into SET or WHERE

INSERT INTO r BY NAME SELECT 1 AS b, 2 AS a
--! UnsupportedError 1:13 | INSERT ... BY NAME is not supported | list the columns: INSERT INTO t (a, b)

INSERT INTO r PARTITION (b = 3) SELECT 1, 2
--! UnsupportedError 1:26 | PARTITION is not supported | put the value into the query

INSERT OR REPLACE INTO r VALUES (1, 2)
--! UnsupportedError 1:24 | INSERT OR ... is not supported | DELETE the rows with these keys first, or declare no key

INSERT OR IGNORE INTO r VALUES (1, 2)
--! UnsupportedError 1:23 | INSERT OR ... is not supported | DELETE the rows with these keys first, or declare no key

INSERT OVERWRITE r VALUES (1, 2)
--! UnsupportedError 1:18 | INSERT OVERWRITE is not supported | use DELETE, and then INSERT INTO

INSERT OVERWRITE TABLE r SELECT 1, 2
--! UnsupportedError 1:24 | INSERT OVERWRITE is not supported | use DELETE, and then INSERT INTO

INSERT INTO r (a INT) VALUES (1)
--! ParseError 1:16 | a INT is not a name of a column | list the names alone

CREATE TABLE z (a INT CHECK (a > (SELECT 1)))
--! UnsupportedError 1:42 | a subquery in CHECK is not supported | use a foreign key, or a view that shows the rows that are wrong

WITH q AS (SELECT 1) INSERT INTO r SELECT * FROM q
--! UnsupportedError 1:6 | WITH before INSERT is not supported | write INSERT INTO ... WITH ... SELECT

COPY r (a) FROM 'x.csv'
--! UnsupportedError 1:6 | COPY with a list of columns is not supported | name the columns in the file's first line

COPY r FROM 'x.csv' (FORMAT csv, ENCODING 'latin1')
--! UnsupportedError 1:43 | COPY ... ENCODING is not supported | options are FORMAT, HEADER, DELIMITER and NULL

DROP TABLE IF EXISTS r PURGE
--! UnsupportedError 1:22 | DROP ... PURGE is not supported | -

DROP TEMPORARY TABLE r
--! UnsupportedError 1:22 | DROP ... TEMPORARY is not supported | -

CREATE TABLE z (a INT REFERENCES r (a) ON DELETE SET DEFAULT)
--! UnsupportedError 1:34 | ON DELETE SET DEFAULT is not supported | ON DELETE can be NO ACTION, RESTRICT, CASCADE, SET NULL

CREATE TABLE z (a INT, FOREIGN KEY (a) REFERENCES r (a) ON UPDATE CASCADE)
--! UnsupportedError 1:51 | ON UPDATE CASCADE is not supported | ON UPDATE can be NO ACTION, RESTRICT

CREATE TABLE z (a INT PRIMARY KEY DESC)
--! UnsupportedError 1:17 | an order of a PRIMARY KEY is not supported | -

CREATE TABLE z (a INT, b INT, PRIMARY KEY (a) INCLUDE (b))
--! UnsupportedError 1:56 | INCLUDE is not supported | leave it out

CREATE TEMPORARY TABLE z (a INT)
--! UnsupportedError 1:8 | option TEMPORARY is not supported | the only option is WITH (static = true)

CREATE TABLE z (a INT) PARTITION BY (a)
--! UnsupportedError 1:24 | option PARTITION BY (a) is not supported | the only option is WITH (static = true)

CREATE MATERIALIZED VIEW v USING delta AS SELECT a FROM r
--! UnsupportedError 1:26 | option USING delta is not supported | write CREATE MATERIALIZED VIEW ... AS SELECT ...

CREATE MATERIALIZED VIEW v PARTITION BY a AS SELECT a FROM r
--! UnsupportedError 1:41 | option PARTITION BY a is not supported | write CREATE MATERIALIZED VIEW ... AS SELECT ...

CREATE MATERIALIZED VIEW v TABLESPACE q AS SELECT a FROM r
--! UnsupportedError 1:39 | option TABLESPACE q is not supported | write CREATE MATERIALIZED VIEW ... AS SELECT ...

CREATE MATERIALIZED VIEW v ENGINE = MergeTree AS SELECT a FROM r
--! UnsupportedError 1:26 | option ENGINE=MergeTree is not supported | write CREATE MATERIALIZED VIEW ... AS SELECT ...

CREATE ALGORITHM = MERGE VIEW v AS SELECT a FROM r
--! UnsupportedError 1:8 | option ALGORITHM=MERGE is not supported | write CREATE MATERIALIZED VIEW ... AS SELECT ...

CREATE MATERIALIZED VIEW v WITH (fillfactor = 70) AS SELECT a FROM r
--! UnsupportedError 1:34 | option fillfactor=70 is not supported | known are maintenance, memory, plan, refresh, staleness, strict

CREATE MATERIALIZED VIEW v COMMENT 'x' AS SELECT a FROM r
--! UnsupportedError 1:36 | option SCHEMACOMMENT is not supported | write CREATE MATERIALIZED VIEW ... AS SELECT ...

CREATE MATERIALIZED VIEW v WITH NO DATA AS SELECT a FROM r
--! UnsupportedError 1:26 | option WITH NO DATA is not supported | write CREATE MATERIALIZED VIEW ... AS SELECT ...

CREATE MATERIALIZED VIEW v AS SELECT a FROM r WITH NO DATA
--! UnsupportedError 1:47 | WITH NO DATA is not supported | views are always current

CREATE TEMPORARY VIEW v AS SELECT a FROM r
--! UnsupportedError 1:8 | option TEMPORARY is not supported | write CREATE MATERIALIZED VIEW ... AS SELECT ...

CREATE VIEW v (x COMMENT 'x') AS SELECT a FROM r
--! ParseError 1:16 | x is not a name of a column | list the names alone

CREATE VIEW v AS SELECT a FROM r WITH NO SCHEMA BINDING
--! UnsupportedError 1:13 | WITH NO SCHEMA BINDING is not supported | -

CREATE VIEW v AS SELECT a FROM r VERSION AS OF 3
--! UnsupportedError 1:48 | a version of a table (AS OF) is not supported | a view has the rows as they are now

CREATE VIEW v AS SELECT a FROM r AT (TIMESTAMP => '2020-01-01')
--! UnsupportedError 1:51 | AT and BEFORE of a table are not supported | a view has the rows as they are now

CREATE VIEW v AS SELECT a FROM r FOR SYSTEM_TIME AS OF '2020-01-01'
--! UnsupportedError 1:56 | a version of a table (AS OF) is not supported | a view has the rows as they are now

CREATE VIEW v AS SELECT a FROM r AS q FINAL
--! ParseError 1:39 | unexpected 'FINAL' | after 'FINAL' the text ends

CREATE VIEW v AS SELECT a FROM r WITH (NOLOCK)
--! UnsupportedError 1:32 | table hints like WITH (NOLOCK) are not supported | -

CREATE VIEW v AS SELECT a FROM r@link
--! UnsupportedError 1:32 | a table elsewhere (t@link) is not supported | -

CREATE VIEW v AS SELECT r.a FROM r JOIN r AS q (a INT) ON TRUE
--! UnsupportedError 1:49 | types of columns in FROM are not supported | use CAST in the select list

CREATE VIEW v AS SELECT AS STRUCT a FROM r
--! UnsupportedError 1:35 | SELECT AS STRUCT or VALUE is not supported | select the columns

CREATE VIEW v AS SELECT CAST(e AS DATE FORMAT 'YYYY') FROM r
--! UnsupportedError 1:30 | TO_DATE(e, 'YYYY') is not supported | -

CREATE VIEW v AS SELECT CAST(e AS INT FORMAT '999') FROM r
--! UnsupportedError 1:46 | CAST ... FORMAT is not supported | -

CREATE VIEW v AS SELECT TRY_CAST(e AS INT) FROM r
--! UnsupportedError 1:34 | TRY_CAST is not supported | use CAST, and WHERE or CASE for the rows that it cannot take

CREATE VIEW v AS SELECT ROUND(c, 1, 1) FROM r
--! TypingError 1:25 | ROUND(c, 1) has too many arguments | -

CREATE VIEW v AS SELECT MIN(a, 2) FROM r
--! TypingError 1:25 | MIN takes one argument | -

CREATE VIEW v AS SELECT SUM(a ORDER BY b) FROM r
--! UnsupportedError 1:29 | ORDER BY inside of a call is not supported | -

CREATE VIEW v AS SELECT SUM(a) IGNORE NULLS FROM r
--! UnsupportedError 1:25 | IGNORE NULLS is not supported | aggregates pass over NULLs

CREATE VIEW v AS SELECT DATE_TRUNC('month', ts, 'UTC') FROM t
--! UnsupportedError 1:49 | a time zone in DATE_TRUNC is not supported | -

CREATE VIEW v AS SELECT a FROM r ORDER BY a WITH FILL
--! UnsupportedError 1:43 | WITH FILL is not supported | join with a table that has all values

CREATE VIEW v AS SELECT a FROM r ORDER BY a LIMIT 1 PERCENT
--! UnsupportedError 1:51 | LIMIT in percent is not supported | write a number of rows

CREATE VIEW v AS SELECT a FROM r ORDER BY a LIMIT 1 BY b
--! UnsupportedError 1:56 | LIMIT ... BY is not supported | -

CREATE VIEW v AS SELECT a FROM r UNION CORRESPONDING SELECT k FROM s
--! ResolutionError 1:25 | CORRESPONDING finds no column of both sides | -

CREATE VIEW v AS SELECT * FROM r UNION CORRESPONDING SELECT a FROM r
--! ResolutionError 1:25 | CORRESPONDING needs the names of the columns | list the columns, or write CORRESPONDING BY (a, b)

CREATE VIEW v AS SELECT a FROM r UNION CORRESPONDING BY (a) SELECT b FROM r
--! ResolutionError 1:25 | no column a | known are b

CREATE VIEW v AS SELECT a FROM r LEFT UNION BY NAME SELECT b FROM r
--! UnsupportedError 1:25 | columns of set operations matched by name are not supported | list the columns in one order

CREATE VIEW v AS SELECT a, SUM(b) FROM r GROUP BY a WITH TOTALS
--! UnsupportedError 1:51 | WITH TOTALS is not supported | use UNION ALL with the total

CREATE VIEW v AS SELECT * FROM r PIVOT (SUM(b) FOR a IN (SELECT a FROM r))
--! UnsupportedError 1:41 | PIVOT needs its values in a list | write FOR column IN (1, 2, 3)

CREATE VIEW v AS SELECT * FROM r PIVOT (b FOR a IN (1, 2))
--! ParseError 1:41 | expecting an aggregation function in PIVOT, near 'b' | -

CREATE VIEW v AS SELECT * FROM r PIVOT (SUM(zz) FOR a IN (1, 2))
--! ResolutionError 1:41 | * has no column zz | known are a, b, c, d, e

CREATE VIEW v AS SELECT * FROM r UNPIVOT ((y, z) FOR n IN ((a, b)))
--! UnsupportedError 1:44 | UNPIVOT into several columns of values is not supported | write UNPIVOT (value FOR name IN (a, b)), or UNION ALL

CREATE VIEW v AS SELECT * FROM r UNPIVOT (z FOR n IN (a, zz))
--! ResolutionError 1:43 | * has no column zz | known are a, b, c, d, e

CREATE VIEW v AS SELECT * FROM r UNPIVOT (z FOR n IN (a, e))
--! TypingError 1:32 | column 5 (z) mixes INTEGER and VARCHAR | convert with CAST(... AS type)

CREATE VIEW v AS SELECT r.a FROM r ASOF JOIN s ON r.b = s.b
--! ParseError 1:51 | ASOF JOIN needs one inequality in ON, and else equalities | write ON a.k = b.k AND a.t >= b.t

CREATE VIEW v AS SELECT r.a FROM r ASOF JOIN s USING (b)
--! UnsupportedError 1:36 | ASOF JOIN needs ON | write ON a.k = b.k AND a.t >= b.t

CREATE VIEW v AS SELECT r.a FROM r ASOF RIGHT JOIN s ON r.b >= s.b
--! ParseError 1:36 | ASOF RIGHT JOIN is not a join | exchange sides

CREATE VIEW v AS SELECT r.a FROM r ASOF JOIN s ON r.b >= s.b AND r.a > s.x
--! ParseError 1:51 | ASOF JOIN needs one inequality in ON, and else equalities | write ON a.k = b.k AND a.t >= b.t

CREATE VIEW v AS SELECT r.a FROM r ASOF JOIN s ON r.b >= r.a
--! ParseError 1:51 | the inequality of ASOF JOIN is between a column of either side | name the column of s with the table before it

CREATE VIEW v AS SELECT r.a FROM r ASOF JOIN s ON r.b >= s.b AND r.a = r.c
--! ParseError 1:66 | ON of ASOF JOIN compares with a column of s | -

CREATE VIEW v AS SELECT r.a FROM r STRAIGHT_JOIN s ON r.b = s.b
--! UnsupportedError 1:36 | STRAIGHT JOIN is not supported | -

CREATE VIEW v AS SELECT a FROM r SORT BY a
--! UnsupportedError 1:42 | SORT BY is not supported | use ORDER BY

CREATE VIEW v AS SELECT a FROM r CLUSTER BY a
--! UnsupportedError 1:45 | CLUSTER BY is not supported | -

CREATE VIEW v AS WITH q AS (DELETE FROM r RETURNING a) SELECT a FROM r
--! UnsupportedError 1:41 | a change of rows inside of WITH is not supported | run it as a statement of its own

CREATE VIEW v AS WITH q AS (SELECT nope FROM r) SELECT a FROM r
--! ResolutionError 1:36 | no column nope | known are a, b, c, d, e

CREATE VIEW v AS SELECT a FROM r WHERE EXISTS (WITH q AS (SELECT r.nope FROM s) SELECT 1 FROM s)
--! ResolutionError 1:66 | r has no column nope | known are a, b, c, d, e

CREATE VIEW v AS SELECT a FROM r WHERE a IN ()
--! ParseError 1:40 | IN has an empty list | write FALSE, or TRUE for NOT IN, where nothing is in the list

CREATE VIEW v AS SELECT a FROM r WHERE a NOT IN ()
--! ParseError 1:40 | IN has an empty list | write FALSE, or TRUE for NOT IN, where nothing is in the list

CREATE VIEW v AS SELECT a FROM r WHERE a IN b
--! UnsupportedError 1:45 | IN without parentheses is not supported | write x IN (1, 2, 3) or x IN (SELECT ...)

CREATE VIEW v AS SELECT a FROM r WHERE a IN UNNEST(ARRAY[1])
--! UnsupportedError 1:58 | IN UNNEST(...) is not supported | for a list of values write x IN (1, 2, 3)

CREATE VIEW v AS SELECT a FROM r WHERE a IN LIST(1, 2)
--! UnsupportedError 1:45 | IN without parentheses is not supported | write x IN (1, 2, 3) or x IN (SELECT ...)

CREATE VIEW v AS SELECT e COLLATE "C" FROM r
--! UnsupportedError 1:25 | COLLATE is not supported | text is compared by code point

CREATE VIEW v AS SELECT a FROM r, UNNEST(ARRAY[1]) q
--! UnsupportedError 1:48 | UNNEST in FROM is not supported | write VALUES (1), (2)

CREATE TABLE z (a DECIMAL(19,2))
--! UnsupportedError 1:17 | column a is DECIMAL(19,2), and columns have at most 18 digits | write DECIMAL(18,2) or DOUBLE; sums of it may have 38 digits

CREATE VIEW v AS SELECT r.a FROM r OUTER JOIN s ON r.b = s.b
--! ParseError 1:36 | OUTER JOIN is not a join | write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN or CROSS JOIN

CREATE VIEW v AS SELECT r.a FROM r LEFT INNER JOIN s ON r.b = s.b
--! ParseError 1:36 | LEFT INNER JOIN is not a join | write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN or CROSS JOIN

CREATE VIEW v AS SELECT a FROM (SELECT a FROM r ORDER BY b) x LIMIT 3
--! UnsupportedError 1:58 | ORDER BY of a subquery does not decide which rows LIMIT takes | write ORDER BY beside LIMIT

CREATE VIEW v AS SELECT r.a FROM r NATURAL JOIN s ON r.b = s.b
--! ParseError 1:36 | NATURAL JOIN has no ON and no USING | leave NATURAL out, or the condition

CREATE VIEW v AS SELECT r.a FROM r LEFT CROSS JOIN s
--! ParseError 1:36 | LEFT CROSS JOIN is not a join | write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN or CROSS JOIN

UPDATE r SET s.a = 5
--! UnsupportedError 1:14 | a table's name in SET is not supported | write a: UPDATE changes columns of its own table alone

CREATE VIEW v AS SELECT a FROM r WHERE RANK() OVER (ORDER BY a) < 3
--! UnsupportedError 1:40 | a window function cannot stand here | compute it in the select list of a subquery, or filter with QUALIFY

CREATE VIEW v AS SELECT a FROM r QUALIFY a > 1
--! UnsupportedError 1:42 | QUALIFY needs a window function | write WHERE or HAVING instead

CREATE VIEW v AS SELECT a, RANK() OVER w FROM r
--! ResolutionError 1:40 | no window w | -

CREATE VIEW v AS SELECT NTILE(0) OVER (ORDER BY a) FROM r
--! TypingError 1:31 | NTILE needs a whole number from 1 on | write it as a constant

CREATE VIEW v AS SELECT SUM(a) OVER (ORDER BY a, b RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM r
--! TypingError 1:25 | RANGE with an offset needs one ORDER BY expression | -

CREATE VIEW v AS SELECT SUM(a) OVER (ORDER BY a ROWS BETWEEN b PRECEDING AND CURRENT ROW) FROM r
--! TypingError 1:62 | ROWS needs a whole number | write it as a constant

CREATE VIEW v AS SELECT SUM(a) OVER (ORDER BY a ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM r
--! ParseError 1:25 | the frame ends before it starts | -

CREATE VIEW v AS SELECT LAG(a IGNORE NULLS) OVER (ORDER BY a) FROM r
--! UnsupportedError 1:25 | IGNORE NULLS of LAG is not supported | filter the NULLs in a subquery first

CREATE VIEW v AS SELECT MEDIAN(a) OVER (ORDER BY b) FROM r
--! UnsupportedError 1:25 | PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) over a window is not supported | join with a grouped subquery instead

CREATE VIEW v AS SELECT SUM(RANK() OVER (ORDER BY a)) OVER () FROM r
--! UnsupportedError 1:29 | window functions cannot be nested | compute the inner one in a subquery

CREATE VIEW v AS SELECT RANK() FROM r
--! TypingError 1:25 | RANK needs a window | write RANK() OVER (ORDER BY ...)

CREATE VIEW v AS SELECT PERCENTILE_CONT(2) WITHIN GROUP (ORDER BY a) FROM r
--! TypingError 1:41 | a percentile needs a constant between 0 and 1 | -

CREATE VIEW v AS SELECT FIRST(a) FROM r
--! UnsupportedError 1:25 | FIRST without ORDER BY depends on no order of the rows | write FIRST(x ORDER BY y), or ANY_VALUE, MIN or MAX

CREATE VIEW v AS SELECT a FROM (SELECT a FROM r LIMIT b) q
--! TypingError 1:55 | LIMIT needs a whole number | -

CREATE VIEW v (x, x) AS SELECT a, b FROM r
--! ResolutionError 1:35 | column x is twice in the result | give one of them another name with AS

CREATE VIEW v AS SELECT * EXCEPT (z) FROM s
--! ResolutionError 1:25 | * has no column z | known are b, k, x

CREATE VIEW v AS SELECT a, GROUPING(b) FROM r GROUP BY ROLLUP (a)
--! TypingError 1:37 | b is not in GROUP BY | -

CREATE VIEW v AS SELECT a, b FROM r GROUP BY ROLLUP (a)
--! TypingError 1:28 | column b is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(b)

CREATE VIEW v AS SELECT a FROM r GROUP BY CUBE (a, b, c, d, e, a + 1, b + 1)
--! UnsupportedError 1:49 | GROUP BY has 128 grouping sets, and 64 at most are supported | list those that you need in GROUPING SETS

CREATE VIEW v AS SELECT a FROM r RIGHT SEMI JOIN s ON r.b = s.b
--! ParseError 1:34 | RIGHT SEMI JOIN is not a join | exchange sides

CREATE VIEW v AS SELECT a FROM r SEMI JOIN s
--! UnsupportedError 1:34 | the join has no condition | add ON ..., or CROSS JOIN

CREATE VIEW v AS SELECT a, x FROM r SEMI JOIN s ON r.b = s.b
--! ResolutionError 1:28 | no column x | known are a, b, c, d, e

CREATE VIEW v AS SELECT a AS x, b AS x FROM r UNION ALL BY NAME SELECT b AS x FROM s
--! TypingError 1:25 | BY NAME needs different names of columns | -

CREATE VIEW v AS SELECT a FROM r WHERE (a, b) < (1, 2, 3)
--! UnsupportedError 1:41 | rows compare at equal length only | -

CREATE VIEW v AS SELECT a FROM r WHERE a = $1
--! ParseError 1:44 | parameter 1 has no value | write the value itself

SELECT a FROM r WHERE a = :low
--! ParseError 1:27 | parameter :low has no value | write the value itself

UPDATE r SET a = ? WHERE b = $1
--! ParseError 1:18 | ? and $1 are in one text | number all parameters, or none

INSERT INTO r VALUES (1) ON CONFLICT (a + 1) DO NOTHING
--! UnsupportedError 1:39 | ON CONFLICT takes names of columns | -

INSERT INTO r VALUES (1) ON CONFLICT (a) DO UPDATE SET r.b = 1
--! UnsupportedError 1:56 | a table's name in SET is not supported | write b: UPDATE changes columns of its own table alone

CREATE TABLE z (a INT DEFAULT 5 DEFAULT 6)
--! ParseError 1:17 | column a has two defaults | -

CREATE TABLE z (a INT DEFAULT 'x')
--! DataError 1:31 | DEFAULT of column a is INTEGER, and 'x' is not | give a value that converts to INTEGER without loss

CREATE TABLE z (a INT DEFAULT 99999999999)
--! RangeError 1:31 | DEFAULT of column a: 99999999999 is out of range for INTEGER | -

CREATE TABLE z (a DATE DEFAULT CURRENT_DATE)
--! UnsupportedError 1:17 | DEFAULT CURRENT_DATE is not a constant | write a constant, and give other values with the rows

CREATE TABLE z (a INT, b INT DEFAULT a)
--! ResolutionError 1:38 | a is not a constant | -

CREATE TABLE z (a VARCHAR(2) DEFAULT 'xyz')
--! RangeError 1:38 | DEFAULT of column a: 'xyz' has 3 characters, 2 are most | -

CREATE TABLE z (a INT DEFAULT (SELECT 1))
--! UnsupportedError 1:39 | DEFAULT (SELECT 1) is not a constant | write a constant, and give other values with the rows

CREATE TABLE z (a BIGINT DEFAULT nextval('s'))
--! UnsupportedError 1:34 | DEFAULT NEXTVAL('s') is not a constant | write a constant, and give other values with the rows

CREATE TABLE z (a INT, CHECK (a + 1))
--! TypingError 1:31 | NOT needs a condition, (a + 1) is BIGINT | compare it with something, for instance <> 0

CREATE TABLE z (a INT, CHECK (a = 'x'))
--! TypingError 1:31 | 'x' does not read as INTEGER | -

CREATE TABLE z (a INT, CHECK (SUM(a) > 1))
--! TypingError 1:31 | SUM(a) in CHECK | CHECK is about one row

CREATE TABLE z (a INT, CHECK (r.a > 1))
--! ResolutionError 1:31 | no table r in FROM | known are z

CREATE TABLE z (a INT, CHECK (foo(a)))
--! ResolutionError 1:31 | no function foo | did you mean floor?

CREATE TABLE z (a INT, CHECK (ROW_NUMBER() OVER () > 1))
--! TypingError 1:31 | ROW_NUMBER() OVER () in CHECK | CHECK is about one row

CREATE TABLE z (a INT, CHECK (EXISTS (SELECT 1 FROM r)))
--! UnsupportedError 1:46 | a subquery in CHECK is not supported | use a foreign key, or a view that shows the rows that are wrong

CREATE TABLE z (a INT, CHECK ())
--! ParseError 1:32 | something is missing near ')' | after ')' the text ends

CREATE TABLE z (a INT, UNIQUE (q))
--! ResolutionError 1:14 | constraint z_q_key names q, which z does not have | known are a

CREATE TABLE z (a INT, UNIQUE (a, a))
--! ResolutionError 1:32 | the key names a twice | -

CREATE TABLE z (a INT UNIQUE NULLS NOT DISTINCT)
--! UnsupportedError 1:17 | NULLS NOT DISTINCT is not supported | leave it out: rows with a NULL are no duplicates

CREATE TABLE z (a INT, UNIQUE (a + 1))
--! ParseError 1:34 | expecting ), near '+' | -

CREATE STREAM z (a INT UNIQUE)
--! UnsupportedError 1:15 | UNIQUE of a stream cannot be checked, since its rows are not kept | declare z with CREATE TABLE

CREATE STREAM z (a INT REFERENCES r (a))
--! UnsupportedError 1:15 | a foreign key of a stream cannot be checked, since its rows are not kept | declare z with CREATE TABLE

CREATE TABLE z (a INT, FOREIGN KEY (q) REFERENCES r (a))
--! ResolutionError 1:14 | constraint z_q_fkey names q, which z does not have | known are a

CREATE TABLE z (a INT, b INT, FOREIGN KEY (a, b) REFERENCES r (a))
--! ResolutionError 1:61 | 2 columns refer to 1 | a foreign key has as many columns as the key that it refers to

CREATE TABLE z (a INT, b INT, FOREIGN KEY (a, b) REFERENCES r (a, b) MATCH FULL)
--! UnsupportedError 1:61 | MATCH FULL is not supported | leave it out: a key with a NULL refers to nothing

CREATE TABLE z (a INT NOT NULL REFERENCES r (a) ON DELETE SET NULL)
--! ResolutionError 1:14 | ON DELETE SET NULL of a, which is NOT NULL | use ON DELETE CASCADE or RESTRICT

CREATE TABLE z (a INT REFERENCES r (a) ON DELETE EXPLODE)
--! ParseError 1:50 | invalid key constraint, near 'EXPLODE' | -

CREATE TABLE z (a INT REFERENCES db.r (a))
--! UnsupportedError 1:34 | schemas are not supported: db.r | write r

CREATE TABLE z (a INT, EXCLUDE (a WITH =))
--! UnsupportedError 1:33 | EXCLUDE (a WITH =) is not supported | a table may have columns, PRIMARY KEY, UNIQUE, CHECK and FOREIGN KEY

CREATE TABLE z (a INT GENERATED ALWAYS AS IDENTITY)
--! UnsupportedError 1:17 | GENERATED ALWAYS AS IDENTITY is not supported | a column may have a type, NOT NULL, DEFAULT, PRIMARY KEY, UNIQUE, CHECK and REFERENCES

CREATE TABLE z (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)
--! UnsupportedError 1:24 | GENERATED ALWAYS AS (a + 1) STORED is not supported | a column may have a type, NOT NULL, DEFAULT, PRIMARY KEY, UNIQUE, CHECK and REFERENCES

CREATE TABLE z (a INT COLLATE "C")
--! UnsupportedError 1:17 | COLLATE "C" is not supported | a column may have a type, NOT NULL, DEFAULT, PRIMARY KEY, UNIQUE, CHECK and REFERENCES

MERGE INTO r
--! ParseError 1:12 | MERGE needs USING, ON, WHEN and THEN | write MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN ...

MERGE INTO r USING s
--! ParseError 1:20 | MERGE needs USING, ON, WHEN and THEN | write MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN ...

MERGE INTO r USING s ON r.b = s.b
--! ParseError 1:33 | MERGE needs USING, ON, WHEN and THEN | write MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN ...

MERGE INTO r USING s ON r.b = s.b WHEN MATCHED
--! ParseError 1:40 | MERGE needs USING, ON, WHEN and THEN | write MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN ...

MERGE INTO r USING s ON r.b = s.b WHEN MATCHED THEN
--! ParseError 1:48 | something is missing near 'THEN' | after 'THEN' the text ends

MERGE INTO r USING s ON r.b = s.b WHEN MATCHED THEN INSERT (a) VALUES (s.b)
--! ParseError 1:53 | INSERT of a row that is there | INSERT belongs to WHEN NOT MATCHED

MERGE INTO r USING s ON r.b = s.b WHEN NOT MATCHED THEN DELETE
--! ParseError 1:57 | DELETE of a row that is not there | WHEN NOT MATCHED can INSERT or DO NOTHING

MERGE INTO r USING s ON r.b = s.b WHEN NOT MATCHED THEN UPDATE SET a = s.b
--! ParseError 1:57 | UPDATE of a row that is not there | WHEN NOT MATCHED can INSERT or DO NOTHING

MERGE INTO r USING s ON r.b = s.b WHEN NOT MATCHED BY SOURCE THEN INSERT (a) VALUES (1)
--! ParseError 1:67 | INSERT of a row that is there | INSERT belongs to WHEN NOT MATCHED

MERGE INTO r USING s ON r.b = s.b WHEN MATCHED THEN UPDATE SET *
--! UnsupportedError 1:53 | UPDATE SET * is not supported | list the columns

MERGE INTO r USING s ON r.b = s.b WHEN MATCHED THEN UPDATE SET a = 1, a = 2
--! ParseError 1:71 | SET names a twice | -

MERGE INTO r USING s ON r.b = s.b WHEN MATCHED THEN UPDATE SET r.a = 1
--! UnsupportedError 1:64 | a table's name in SET is not supported | write a: UPDATE changes columns of its own table alone

MERGE INTO r USING s ON r.b = s.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.b)
--! ParseError 1:81 | 1 values for 2 columns | -

MERGE INTO r USING s ON r.b = s.b WHEN NOT MATCHED THEN INSERT *
--! UnsupportedError 1:64 | INSERT without VALUES is not supported | write INSERT (columns) VALUES (values)

MERGE INTO r USING s ON r.b = s.b WHEN NOT MATCHED THEN INSERT (a + 1) VALUES (s.b)
--! ParseError 1:65 | a + 1 is not a name of a column | list the names alone

MERGE INTO r USING s ON r.b = s.b WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING
--! ParseError 1:1 | clause 2 of MERGE is never reached | an earlier WHEN without AND takes all of its rows

MERGE INTO r USING s ON r.b = s.b WHEN MATCHED THEN DELETE RETURNING a
--! UnsupportedError 1:12 | MERGE ... RETURNING is not supported | read the rows after the statement

MERGE INTO db.r USING s ON r.b = s.b WHEN MATCHED THEN DELETE
--! UnsupportedError 1:12 | schemas are not supported: db.r | write r

MERGE r USING s ON r.b = s.b WHEN MATCHED THEN EXPLODE
--! ParseError 1:48 | unknown option EXPLODE, near 'EXPLODE' | after 'EXPLODE' the text ends

MERGE INTO r USING s WHEN MATCHED THEN DELETE
--! ParseError 1:1 | MERGE needs USING, ON and WHEN | write MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN ...

WITH q AS (SELECT 1) MERGE INTO r USING q ON TRUE WHEN MATCHED THEN DELETE
--! UnsupportedError 1:1 | WITH before MERGE is not supported | write USING (WITH ...) AS s

TRUNCATE
--! ParseError 1:1 | expected table name, near 'TRUNCATE' | after 'TRUNCATE' the text ends

TRUNCATE r CASCADE
--! UnsupportedError 1:1 | TRUNCATE ... CASCADE is not supported | write TRUNCATE a, b

TRUNCATE r RESTART IDENTITY
--! UnsupportedError 1:1 | TRUNCATE ... RESTART is not supported | write TRUNCATE a, b

TRUNCATE TABLE IF EXISTS r
--! UnsupportedError 1:1 | TRUNCATE ... IF EXISTS is not supported | write TRUNCATE a, b

TRUNCATE db.r
--! UnsupportedError 1:10 | schemas are not supported: db.r | write r

BEGIN ISOLATION LEVEL SERIALIZABLE
--! UnsupportedError 1:7 | BEGIN ... ISOLATION LEVEL SERIALIZABLE is not supported | a transaction sees the rows as they were at its statements, and its own

BEGIN READ ONLY
--! UnsupportedError 1:7 | BEGIN ... READ ONLY is not supported | a transaction sees the rows as they were at its statements, and its own

START r
--! UnsupportedError 1:1 | START is followed by TRANSACTION | write START TRANSACTION

COMMIT AND CHAIN
--! UnsupportedError 1:8 | COMMIT ... AND CHAIN is not supported | a transaction sees the rows as they were at its statements, and its own

COMMIT PREPARED 'x'
--! UnsupportedError 1:8 | COMMIT ... PREPARED X is not supported | a transaction sees the rows as they were at its statements, and its own

ROLLBACK TO SAVEPOINT x
--! UnsupportedError 1:1 | savepoints are not supported | ROLLBACK undoes all statements

SAVEPOINT x
--! UnsupportedError 1:1 | savepoints are not supported | ROLLBACK undoes all statements

RELEASE SAVEPOINT x
--! UnsupportedError 1:1 | savepoints are not supported | ROLLBACK undoes all statements

BEGIN WORK x
--! UnsupportedError 1:12 | BEGIN ... X is not supported | a transaction sees the rows as they were at its statements, and its own

CREATE VIEW v AS SELECT DISTINCT a FROM r ORDER BY b
--! UnsupportedError 1:52 | ORDER BY needs a column of the select list | known are a

CREATE VIEW v AS SELECT DISTINCT a FROM r ORDER BY a + 1
--! UnsupportedError 1:52 | ORDER BY needs a column of the select list | add the expression to the select list, with a name

CREATE VIEW v AS SELECT a FROM r UNION SELECT b FROM s ORDER BY a + 1
--! UnsupportedError 1:65 | ORDER BY needs a column of the select list | add the expression to the select list, with a name

CREATE VIEW v AS SELECT a FROM r GROUP BY a ORDER BY b
--! TypingError 1:54 | column b is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(b)

CREATE VIEW v AS SELECT a, SUM(b) AS n FROM r GROUP BY a ORDER BY c + n
--! TypingError 1:67 | column c is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(c)

CREATE VIEW v AS SELECT a FROM r WHERE a = (SELECT b, x FROM s)
--! TypingError 1:52 | a scalar subquery has 2 columns, not 1 | -

CREATE VIEW v AS SELECT a FROM r ORDER BY (SELECT b, x FROM s)
--! TypingError 1:51 | a scalar subquery has 2 columns, not 1 | -

CREATE VIEW v AS SELECT a FROM r ORDER BY z.b
--! ResolutionError 1:43 | no table z in FROM | known are r

CREATE VIEW v AS SELECT r.a FROM r RIGHT JOIN LATERAL (SELECT b FROM s WHERE s.b = r.b) q ON TRUE
--! ParseError 1:36 | RIGHT JOIN LATERAL is not a join | write JOIN LATERAL or LEFT JOIN LATERAL

CREATE VIEW v AS SELECT r.a FROM r FULL JOIN LATERAL (SELECT b FROM s WHERE s.b = r.b) q ON TRUE
--! ParseError 1:36 | FULL JOIN LATERAL is not a join | write JOIN LATERAL or LEFT JOIN LATERAL

CREATE VIEW v AS SELECT r.a FROM r JOIN LATERAL (SELECT b FROM s WHERE s.b = r.b) q
--! UnsupportedError 1:36 | the join has no condition | add ON ..., or CROSS JOIN

CREATE VIEW v AS SELECT r.a FROM r, LATERAL (SELECT b FROM s WHERE s.b = z.b) q
--! ResolutionError 1:74 | no table z in FROM | known are r, s

CREATE VIEW v AS SELECT q.z FROM r, LATERAL (SELECT x FROM s WHERE s.b = r.b) q
--! ResolutionError 1:25 | q has no column z | known are x

CREATE VIEW v AS SELECT r.a FROM LATERAL (SELECT b FROM s) q, r
--! UnsupportedError 1:50 | this cannot stand in FROM | -

CREATE VIEW v AS SELECT r.a FROM r, LATERAL (SELECT b FROM s WHERE s.b = r.b) r
--! ResolutionError 1:53 | r is in FROM more than once | give one of them another name, as in r AS r2

CREATE VIEW v AS SELECT r.a FROM r, LATERAL generate_series(1, r.a) q
--! UnsupportedError 1:45 | GENERATE_SERIES(1, r.a) is not supported | -

CREATE VIEW v AS SELECT a FROM (SELECT a FROM r LIMIT a) q
--! TypingError 1:55 | LIMIT needs a whole number | -

CREATE VIEW v AS SELECT a FROM r, LATERAL (SELECT b FROM s) q(x, y)
--! ResolutionError 1:51 | 2 column names for 1 columns | -

CREATE VIEW v AS SELECT CORR(a, e) FROM r
--! TypingError 1:33 | CORR needs a number, e is VARCHAR | -

CREATE VIEW v AS SELECT CORR(e, a) FROM r
--! TypingError 1:30 | CORR needs a number, e is VARCHAR | -

CREATE VIEW v AS SELECT COVAR_POP(a, b, c) FROM r
--! ParseError 1:42 | the number of provided arguments (3) is greater than the maximum number of supported arguments (2), near ')' | -

CREATE VIEW v AS SELECT CORR(DISTINCT a, b) FROM r
--! ParseError 1:43 | something is missing near ')' | -

CREATE VIEW v AS SELECT a FROM r WHERE CORR(a, b) > 0
--! UnsupportedError 1:40 | aggregate CORR cannot stand here | conditions on aggregates belong in HAVING

CREATE VIEW v AS SELECT CORR(SUM(a), b) FROM r
--! UnsupportedError 1:30 | aggregates cannot be nested | -

CREATE VIEW v AS SELECT COUNT_IF(a) FROM r
--! TypingError 1:34 | WHERE needs a condition, a is INTEGER | compare it with something, for instance <> 0

CREATE VIEW v AS SELECT EVERY(a + 1) FROM r
--! TypingError 1:31 | BOOL_AND/OR needs a condition, a + 1 is BIGINT | compare it with something, for instance <> 0

CREATE VIEW v AS SELECT BIT_AND(c) FROM r
--! TypingError 1:25 | BIT_AND needs a whole number, and not DECIMAL(6,2) | -

CREATE VIEW v AS SELECT BIT_XOR(e) FROM r
--! TypingError 1:25 | BIT_XOR needs a whole number, and not VARCHAR | -

CREATE VIEW v AS SELECT BIT_OR(a, b) FROM r
--! ParseError 1:36 | the number of provided arguments (2) is greater than the maximum number of supported arguments (1), near ')' | -

CREATE VIEW v AS SELECT QUANTILE_CONT(a) FROM r
--! ResolutionError 1:25 | no function quantile_cont | -

CREATE VIEW v AS SELECT QUANTILE_DISC(a, 2) FROM r
--! TypingError 1:42 | a percentile needs a constant between 0 and 1 | -

CREATE VIEW v AS SELECT REGR_AVGX(d, a) FROM r
--! TypingError 1:35 | REGR_AVGX needs a number, d is DATE | -

CREATE VIEW v AS SELECT COVAR_SAMP(z, a) FROM r
--! ResolutionError 1:36 | no column z | known are a, b, c, d, e

CREATE VIEW v AS SELECT a, CORR(a, b) FROM r
--! TypingError 1:25 | column a is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(a)

CREATE VIEW v AS SELECT a FROM r GROUP BY CORR(a, b)
--! UnsupportedError 1:43 | aggregates cannot stand in GROUP BY | -

CREATE VIEW v AS SELECT a, RANK() OVER (ORDER BY b) FROM r GROUP BY ROLLUP (a)
--! TypingError 1:50 | column b is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(b)

CREATE VIEW v AS SELECT b, RANK() OVER (ORDER BY SUM(c)) FROM r GROUP BY CUBE (a)
--! TypingError 1:25 | column b is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(b)

CREATE VIEW v AS SELECT a, RANK() OVER w FROM r GROUP BY ROLLUP (a)
--! ResolutionError 1:40 | no window w | -

CREATE VIEW v AS SELECT a, SUM(SUM(b)) OVER (PARTITION BY z) FROM r GROUP BY ROLLUP (a)
--! ResolutionError 1:59 | no column z | known are value_1, value_2

CREATE VIEW v AS SELECT a FROM r GROUP BY ROLLUP (a) QUALIFY z > 1
--! UnsupportedError 1:62 | QUALIFY needs a window function | write WHERE or HAVING instead

CREATE VIEW v AS SELECT a FROM r ORDER BY SUM(b)
--! TypingError 1:25 | column a is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(a)

CREATE VIEW v AS SELECT a FROM r ORDER BY RANK()
--! TypingError 1:25 | column a is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(a)

CREATE VIEW v AS SELECT a FROM r ORDER BY e + 1
--! TypingError 1:43 | operator + needs a number, e is VARCHAR | -

CREATE VIEW v AS SELECT a FROM r ORDER BY CASE WHEN a THEN 1 END
--! TypingError 1:53 | WHEN needs a condition, a is INTEGER | compare it with something, for instance <> 0

CREATE VIEW v AS SELECT a FROM r ORDER BY 2
--! ResolutionError 1:43 | ORDER BY 2 is not a column of the result | positions are 1 to 1

CREATE VIEW v AS SELECT a FROM r ORDER BY a, 0
--! ResolutionError 1:46 | ORDER BY 0 is not a column of the result | positions are 1 to 1

CREATE VIEW v AS SELECT a, a FROM r ORDER BY a
--! ResolutionError 1:46 | ORDER BY a is ambiguous | -

CREATE VIEW v AS SELECT a AS k, b AS k FROM r ORDER BY k
--! ResolutionError 1:56 | ORDER BY k is ambiguous | -

CREATE VIEW v AS SELECT a FROM r WHERE b > (SELECT x, b FROM s LIMIT 1)
--! TypingError 1:52 | a scalar subquery has 2 columns, not 1 | -

CREATE VIEW v AS SELECT (SELECT * FROM s) FROM r
--! TypingError 1:33 | a scalar subquery has 3 columns, not 1 | -

CREATE VIEW v AS SELECT a FROM r WHERE (SELECT b FROM s) LIKE 'x'
--! TypingError 1:48 | LIKE needs a VARCHAR, (SELECT b FROM s) is INTEGER | write CAST((SELECT b FROM s) AS VARCHAR)

CREATE VIEW v AS SELECT a FROM r WHERE (SELECT k FROM s) = 1
--! TypingError 1:48 | the comparison mixes INTEGER and VARCHAR | convert with CAST(... AS type)

CREATE VIEW v AS SELECT a FROM r HAVING a > (SELECT b FROM s)
--! TypingError 1:25 | column a is neither grouped nor aggregated | add it to GROUP BY, or use it in an aggregate such as MIN(a)

CREATE VIEW v AS SELECT LEAD(a, 'x') OVER (ORDER BY b) FROM r
--! TypingError 1:33 | LAG and LEAD needs a whole number | write it as a constant

CREATE VIEW v AS SELECT LEAD(a, -b) OVER (ORDER BY b) FROM r
--! TypingError 1:34 | LAG and LEAD needs a whole number | write it as a constant

CREATE VIEW v AS SELECT NTH_VALUE(a, 0) OVER (ORDER BY b) FROM r
--! TypingError 1:38 | NTH_VALUE needs a whole number from 1 on | write it as a constant

CREATE VIEW v AS SELECT FIRST_VALUE() OVER (ORDER BY b) FROM r
--! ParseError 1:37 | something is missing near ')' | -

CREATE VIEW v AS SELECT REGR_SLOPE(a) FROM r
--! TypingError 1:25 | REGR_SLOPE takes two arguments | -

SHOW
--! UnsupportedError 1:1 | SHOW is not supported | write SHOW TABLES, SHOW STREAMS, SHOW VIEWS, SHOW COLUMNS FROM t or SHOW CREATE TABLE t

SHOW INDEXES
--! UnsupportedError 1:1 | SHOW INDEXES is not supported | write SHOW TABLES, SHOW STREAMS, SHOW VIEWS, SHOW COLUMNS FROM t or SHOW CREATE TABLE t

SHOW COLUMNS FROM
--! ParseError 1:1 | SHOW takes the name of one table or view | write SHOW COLUMNS FROM t

SHOW COLUMNS FROM r, s
--! ParseError 1:1 | SHOW takes the name of one table or view | write SHOW COLUMNS FROM t

DESCRIBE
--! ParseError 1:1 | DESCRIBE takes the name of one table or view | write DESCRIBE t

DESCRIBE r s
--! ParseError 1:1 | DESCRIBE takes the name of one table or view | write DESCRIBE t

DESCRIBE 'r'
--! ParseError 1:1 | DESCRIBE takes the name of one table or view | write DESCRIBE t

EXPLAIN
--! ParseError 1:1 | EXPLAIN takes a view or a query | write EXPLAIN v

EXPLAIN ANALYZE SELECT 1
--! UnsupportedError 1:1 | EXPLAIN ANALYZE is not supported | write EXPLAIN SELECT ...

EXPLAIN (FORMAT json) SELECT 1
--! UnsupportedError 1:1 | EXPLAIN ( is not supported | write EXPLAIN SELECT ...

EXPLAIN r s
--! ParseError 1:1 | EXPLAIN takes a view or a query | write EXPLAIN v

EXPLAIN DELETE FROM r
--! ParseError 1:1 | EXPLAIN takes a view or a query | write EXPLAIN v

SET
--! ParseError 1:1 | SET needs a name and a value | write SET name = value

SET x = 3
--! UnsupportedError 1:1 | SET x is not supported | accepted, without effect, are application_name, client_encoding, client_min_messages, datestyle, extra_float_digits, search_path, standard_conforming_strings, timezone

SET work_mem TO '4MB'
--! UnsupportedError 1:1 | SET work_mem is not supported | accepted, without effect, are application_name, client_encoding, client_min_messages, datestyle, extra_float_digits, search_path, standard_conforming_strings, timezone

SET search_path
--! ParseError 1:1 | SET needs a name and a value | write SET name = value

CREATE TABLE z (a) AS SELECT 1
--! UnsupportedError 1:1 | CREATE TABLE with columns and AS is not supported | write CREATE TABLE t AS SELECT ..., with names by AS

CREATE TABLE z AS
--! ParseError 1:1 | the table has no columns | write (a INT, ...)

CREATE TABLE db.z AS SELECT 1 AS a
--! UnsupportedError 1:14 | schemas are not supported: db.z | write z

CREATE TABLE z WITH (fast = true) AS SELECT 1 AS a
--! UnsupportedError 1:22 | option fast=TRUE is not supported | write CREATE TABLE t AS SELECT ...

CREATE TABLE "z z" AS SELECT 1 AS a
--! UnsupportedError 1:14 | table name 'z z' is not supported | use letters, digits and _

CREATE SCHEMA x
--! UnsupportedError 1:1 | CREATE SCHEMA is not supported | create a TABLE, a STREAM or a MATERIALIZED VIEW

CREATE SCHEMA IF NOT EXISTS x
--! UnsupportedError 1:1 | CREATE SCHEMA is not supported | create a TABLE, a STREAM or a MATERIALIZED VIEW

DROP SCHEMA x
--! UnsupportedError 1:1 | DROP SCHEMA is not supported | drop a TABLE, a STREAM or a VIEW

CREATE MATERIALIZED VIEW v WITH (strict = 1) AS SELECT a FROM r
--! ResolutionError 1:34 | strict is true or false | write strict = true

CREATE MATERIALIZED VIEW v WITH (strikt = true) AS SELECT a FROM r
--! UnsupportedError 1:34 | option strikt=TRUE is not supported | did you mean strict?

CREATE VIEW v AS SELECT a FROM r FETCH FIRST 2 ROWS WITH TIES
--! UnsupportedError 1:46 | WITH TIES needs ORDER BY | -

CREATE VIEW v AS SELECT NTILE(b) OVER (ORDER BY a) FROM r
--! TypingError 1:31 | NTILE needs a whole number from 1 on | write it as a constant

CREATE VIEW v AS SELECT SUM(e) OVER (ORDER BY a) FROM r
--! TypingError 1:29 | SUM needs a number, e is VARCHAR | -

CREATE VIEW v AS SELECT SUM(b) OVER (PARTITION BY z) FROM r
--! ResolutionError 1:51 | no column z | known are a, b, c, d, e

CREATE VIEW v AS SELECT CORR(a, e) OVER (ORDER BY b) FROM r
--! TypingError 1:33 | CORR needs a number, e is VARCHAR | -

CREATE VIEW v AS SELECT REGR_R2(a) OVER () FROM r
--! TypingError 1:25 | REGR_R2 takes two arguments | -

CREATE VIEW v AS SELECT LAG(a, 1, 'x') OVER (ORDER BY b) FROM r
--! TypingError 1:25 | 'x' does not read as INTEGER | -

CREATE VIEW v AS SELECT LAG(b) FILTER (WHERE a > 1) OVER (ORDER BY a) FROM r
--! UnsupportedError 1:25 | FILTER belongs to an aggregate | -

CREATE VIEW v AS SELECT SUM(b) OVER (ORDER BY a ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM r
--! ParseError 1:25 | the frame ends before it starts | -

CREATE VIEW v AS SELECT SUM(b) OVER (GROUPS 1 PRECEDING) FROM r
--! ParseError 1:45 | expecting ), near '1' | -

CREATE VIEW v AS SELECT SUM(b) OVER (ORDER BY e RANGE 1 PRECEDING) FROM r
--! TypingError 1:25 | RANGE with an offset needs a number, SUM(b) OVER (ORDER BY e RANGE BETWEEN 1 PRECEDING AND CUR... is VARCHAR | -

CREATE VIEW v AS SELECT a FROM r, LATERAL (SELECT SUM(x) AS t FROM s WHERE s.b = r.b GROUP BY z) q
--! ResolutionError 1:95 | no column z | known are a, b, c, d, e, k, x

CREATE VIEW v AS SELECT DISTINCT ON (z) a FROM r
--! ResolutionError 1:38 | no column z | known are a, b, c, d, e

CREATE VIEW v AS SELECT MODE(z) FROM r
--! ResolutionError 1:30 | no column z | known are a, b, c, d, e

CREATE VIEW v AS SELECT r.a, (SELECT s.x FROM s WHERE s.b < r.b ORDER BY s.x LIMIT 1) AS x FROM r
--! UnsupportedError 1:74 | windows and LIMIT over rows that rows outside choose other than by = are not supported where the rows have no key | declare a PRIMARY KEY, or tie the query to the rows outside by =

CREATE VIEW v AS SELECT r.a, q.x FROM r, LATERAL (SELECT s.x FROM s WHERE s.b > r.b ORDER BY s.x LIMIT 2) q
--! UnsupportedError 1:94 | windows and LIMIT over rows that rows outside choose other than by = are not supported where the rows have no key | declare a PRIMARY KEY, or tie the query to the rows outside by =

ALTER TABLE r
--! ParseError 1:13 | expected ADD, DROP, RENAME or ALTER | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r ADD
--! ParseError 1:15 | expected the name of a column | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r ADD COLUMN z
--! ParseError 1:26 | column z has no type | -

ALTER TABLE r ADD COLUMN z FANCY
--! UnsupportedError 1:28 | type fancy is not supported | use BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL(p,s), DATE, TIMESTAMP or VARCHAR

ALTER TABLE r ADD COLUMN z INT PRIMARY KEY
--! UnsupportedError 1:26 | column z cannot be added as a PRIMARY KEY | make another table with CREATE TABLE, and INSERT INTO it SELECT ...

ALTER TABLE r ADD CONSTRAINT u UNIQUE (b)
--! UnsupportedError 1:19 | ADD CONSTRAINT is not supported | constraints are declared with CREATE TABLE

ALTER TABLE r ADD z INT DEFAULT a
--! ResolutionError 1:33 | a is not a constant | -

ALTER TABLE r DROP
--! ParseError 1:15 | expected the name of a column | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r DROP CONSTRAINT u
--! UnsupportedError 1:20 | DROP CONSTRAINT is not supported | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r DROP COLUMN c CASCADE
--! UnsupportedError 1:29 | DROP COLUMN ... CASCADE is not supported | drop the views that use it first

ALTER TABLE r RENAME TO q
--! UnsupportedError 1:22 | RENAME of a table is not supported | make the table anew with CREATE TABLE new AS SELECT * FROM old

ALTER TABLE r RENAME COLUMN c d
--! ParseError 1:31 | expected TO | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r RENAME c TO
--! ParseError 1:24 | expected a new name | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r ALTER COLUMN b TYPE BIGINT
--! UnsupportedError 1:30 | a change of a column's type or of NOT NULL is not supported | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r ALTER b SET NOT NULL
--! UnsupportedError 1:23 | a change of a column's type or of NOT NULL is not supported | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r ALTER COLUMN b SET DEFAULT
--! ParseError 1:34 | expected a value | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r ALTER COLUMN b SET DEFAULT 1, 2
--! ParseError 1:45 | expected ADD, DROP, RENAME or ALTER | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r FROB b
--! ParseError 1:15 | expected ADD, DROP, RENAME or ALTER | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r DROP c, ADD
--! ParseError 1:23 | expected the name of a column | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE r DROP c d
--! ParseError 1:22 | unexpected 'd' | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER TABLE 5 DROP c
--! ParseError 1:13 | expected the name of a table | write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d, or ALTER COLUMN c SET DEFAULT 1

ALTER MATERIALIZED VIEW v AS
--! ParseError 1:1 | view v has no query | write AS SELECT ...

ALTER MATERIALIZED VIEW v AS INSERT
--! ParseError 1:30 | expected table name, near 'INSERT' | after 'INSERT' the text ends

ALTER MATERIALIZED VIEW v AS SELECT a FROM WHERE
--! ParseError 1:44 | expected table name, near 'WHERE' | after 'WHERE' the text ends

ALTER VIEW v RENAME TO w
--! ParseError 1:14 | expected SET | write REFRESH MATERIALIZED VIEW v, or ALTER MATERIALIZED VIEW v SET (maintenance = 'split') or AS SELECT ...

ALTER INDEX i RENAME TO j
--! UnsupportedError 1:1 | ALTER is not a statement of viewlet | statements are CREATE TABLE, STREAM or MATERIALIZED VIEW, INSERT, DELETE, UPDATE, MERGE, TRUNCATE, COPY, DROP, REFRESH, ALTER TABLE, ALTER VIEW and SELECT

SHOW CREATE FUNCTION f
--! ParseError 1:1 | SHOW CREATE takes one name | write SHOW CREATE TABLE t or SHOW CREATE VIEW v

SHOW CREATE TABLE
--! ParseError 1:1 | SHOW CREATE takes one name | write SHOW CREATE TABLE t or SHOW CREATE VIEW v

EXPLAIN ANALYZE SELECT a FROM r
--! UnsupportedError 1:1 | EXPLAIN ANALYZE is not supported | write EXPLAIN SELECT ...

DROP TABLE IF r
--! ParseError 1:15 | unexpected 'r' | after 'r' the text ends

