"""A film database and joins of 8 to 17 of its tables, in the manner of the Join Order Benchmark."""

SCHEMA = """
CREATE TABLE film (id INT PRIMARY KEY, title VARCHAR NOT NULL, kind_id INT NOT NULL, year INT);
CREATE TABLE kind (id INT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE TABLE person (id INT PRIMARY KEY, name VARCHAR NOT NULL, gender VARCHAR);
CREATE TABLE alias (id INT PRIMARY KEY, person_id INT NOT NULL, name VARCHAR NOT NULL);
CREATE TABLE casting (id INT PRIMARY KEY, film_id INT NOT NULL, person_id INT NOT NULL,
    part_id INT, role_id INT NOT NULL, note VARCHAR);
CREATE TABLE part (id INT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE TABLE role (id INT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE TABLE maker (id INT PRIMARY KEY, film_id INT NOT NULL, company_id INT NOT NULL,
    type_id INT NOT NULL, note VARCHAR);
CREATE TABLE company (id INT PRIMARY KEY, name VARCHAR NOT NULL, country VARCHAR);
CREATE TABLE company_type (id INT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE TABLE fact (id INT PRIMARY KEY, film_id INT NOT NULL, type_id INT NOT NULL, info VARCHAR);
CREATE TABLE rating (id INT PRIMARY KEY, film_id INT NOT NULL, type_id INT NOT NULL, info VARCHAR);
CREATE TABLE biography (id INT PRIMARY KEY, person_id INT NOT NULL, type_id INT NOT NULL,
    info VARCHAR);
CREATE TABLE info_type (id INT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE TABLE tagged (id INT PRIMARY KEY, film_id INT NOT NULL, tag_id INT NOT NULL);
CREATE TABLE tag (id INT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE TABLE completed (id INT PRIMARY KEY, film_id INT, subject_id INT NOT NULL,
    status_id INT NOT NULL);
CREATE TABLE completion (id INT PRIMARY KEY, name VARCHAR NOT NULL);
CREATE TABLE link (id INT PRIMARY KEY, film_id INT NOT NULL, other_id INT NOT NULL,
    type_id INT NOT NULL);
CREATE TABLE link_type (id INT PRIMARY KEY, name VARCHAR NOT NULL);
"""

JOINS = {
    "makers": """
        SELECT MIN(f.title) AS title, MIN(c.name) AS company, MIN(r.info) AS rating
        FROM film f, kind k, maker m, company c, company_type ct, rating r, info_type it, fact x
        WHERE f.kind_id = k.id AND m.film_id = f.id AND m.company_id = c.id AND m.type_id = ct.id
          AND r.film_id = f.id AND r.type_id = it.id AND x.film_id = f.id
          AND k.name = 'movie' AND c.country = 'us' AND ct.name = 'producer' AND it.name = 'rating'
          AND x.info LIKE 'Drama%' AND r.info > '5' AND f.year BETWEEN 2000 AND 2010""",
    "tags by country": """
        SELECT c.country, t.name, COUNT(*) AS n, MAX(f.year) AS latest
        FROM film f, tagged g, tag t, maker m, company c, company_type ct, casting s, person p
        WHERE g.film_id = f.id AND g.tag_id = t.id AND m.film_id = f.id AND m.company_id = c.id
          AND m.type_id = ct.id AND s.film_id = f.id AND s.person_id = p.id AND p.gender = 'f'
        GROUP BY c.country, t.name""",
    "two films": """
        SELECT MIN(c1.name) AS a, MIN(c2.name) AS b, MIN(r1.info) AS c, MIN(r2.info) AS d,
               MIN(f1.title) AS e, MIN(f2.title) AS f
        FROM film f1, film f2, kind k1, kind k2, maker m1, maker m2, company c1, company c2,
             rating r1, rating r2, info_type i1, info_type i2, link l, link_type lt
        WHERE l.film_id = f1.id AND l.other_id = f2.id AND l.type_id = lt.id
          AND f1.kind_id = k1.id AND f2.kind_id = k2.id AND m1.film_id = f1.id
          AND m2.film_id = f2.id AND m1.company_id = c1.id AND m2.company_id = c2.id
          AND r1.film_id = f1.id AND r2.film_id = f2.id AND r1.type_id = i1.id
          AND r2.type_id = i2.id AND i1.name = 'rating' AND i2.name = 'rating'
          AND c1.country = 'us' AND k1.name = 'series' AND k2.name = 'series' AND r2.info < '3'""",
    "voices": """
        SELECT MIN(pt.name) AS part, MIN(p.name) AS person, MIN(f.title) AS film
        FROM alias a, completed cc, completion c1, completion c2, part pt, casting s, company c,
             info_type i1, info_type i2, tag t, maker m, fact x, tagged g, person p, biography b,
             role r, film f
        WHERE f.id = x.film_id AND f.id = m.film_id AND f.id = s.film_id AND f.id = g.film_id
          AND f.id = cc.film_id AND m.film_id = s.film_id AND m.film_id = x.film_id
          AND x.film_id = s.film_id AND s.film_id = g.film_id AND g.film_id = cc.film_id
          AND c.id = m.company_id AND i1.id = x.type_id AND p.id = s.person_id AND r.id = s.role_id
          AND p.id = a.person_id AND s.person_id = a.person_id AND pt.id = s.part_id
          AND p.id = b.person_id AND i2.id = b.type_id AND t.id = g.tag_id
          AND c1.id = cc.subject_id AND c2.id = cc.status_id AND c1.name = 'cast'
          AND c2.name = 'complete' AND s.note IN ('(voice)', '(voice: English)')
          AND c.country = 'us' AND i1.name = 'release' AND i2.name = 'trivia'
          AND t.name = 'animation' AND x.info IS NOT NULL AND p.gender = 'f' AND r.name = 'actress'
          AND f.year BETWEEN 2000 AND 2010""",
}
