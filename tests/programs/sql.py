"""A day's work for sqlite3 on 200,000 rows, as a script; test_sqlite and test_footprint run it."""

ROWS = 200_000

SCRIPT = f"""
PRAGMA journal_mode = WAL;
CREATE TABLE event(id INTEGER PRIMARY KEY, person INT, kind TEXT, amount REAL, note TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
INSERT INTO event SELECT i, i * 7919 % 5003, 'kind' || (i % 17), (i * 48271 % 65537) / 7.0,
  printf('note %d %s', i, hex(i * 2654435761 % 4294967296)) FROM n;
COMMIT;
CREATE INDEX by_person ON event(person, kind);
CREATE INDEX by_note ON event(substr(note, -6));
SELECT count(*), sum(amount), min(note), max(note) FROM event;
SELECT kind, count(*), round(avg(amount), 3), group_concat(id % 10, '') FROM event
  WHERE person < 40 GROUP BY kind ORDER BY kind;
SELECT person, total, rank() OVER (ORDER BY total DESC) FROM
  (SELECT person, sum(amount) AS total FROM event GROUP BY person) ORDER BY total DESC LIMIT 12;
SELECT count(*) FROM event a JOIN event b ON a.person = b.person AND a.kind = b.kind AND a.id < b.id
  WHERE a.person < 300;
UPDATE event SET note = note || ' changed ' || amount WHERE id % 5 = 0;
DELETE FROM event WHERE id % 11 = 0;
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO words SELECT note FROM event WHERE id % 8 = 0;
SELECT count(*) FROM words WHERE words MATCH 'changed';
SELECT json_group_array(json_object('id', id, 'note', note)) FROM
  (SELECT id, note FROM event ORDER BY amount, id LIMIT 30);
SELECT sum(length(note)), count(DISTINCT substr(note, -4)) FROM event;
VACUUM;
PRAGMA integrity_check;
"""

# The same number of rows in a database in memory, so that all of it is malloc's blocks: what a
# program that keeps its data there pays for. A file's pages would be the kernel's.
IN_MEMORY = f"""
CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, town TEXT, born INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
INSERT INTO person SELECT i, printf('name %x of many', i * 7919 % 1000003),
  printf('town %d', i * 104729 % 997), 1900 + i * 31 % 120 FROM n;
CREATE INDEX person_name ON person(name);
CREATE INDEX person_town ON person(town, born);
SELECT town, count(*), avg(born) FROM person GROUP BY town ORDER BY 2 DESC, 1 LIMIT 5;
SELECT count(*) FROM person a JOIN person b ON a.town = b.town AND a.born = b.born + 1;
UPDATE person SET name = upper(name) || ' ' || town WHERE id % 3 = 0;
DELETE FROM person WHERE id % 5 = 0;
SELECT count(*), sum(length(name)), max(name) FROM person;
"""
