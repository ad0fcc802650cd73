-- sqlite3 on a file: journal, page cache, full-text index, vacuum.
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE event(id INTEGER PRIMARY KEY, person INT, kind TEXT, amount REAL, note TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO event
SELECT i, i * 7919 % 5003, 'kind' || (i % 17), (i * 48271 % 65537) / 7.0,
       printf('note %d %s', i, hex(i * 2654435761 % 4294967296)) FROM n;
COMMIT;
CREATE INDEX by_person ON event(person, kind);
CREATE INDEX by_note ON event(substr(note, -6));
SELECT kind, count(*), round(avg(amount), 3) FROM event WHERE person < 40 GROUP BY kind ORDER BY kind;
SELECT person, total, rank() OVER (ORDER BY total DESC)
  FROM (SELECT person, sum(amount) AS total FROM event GROUP BY person) ORDER BY total DESC LIMIT 8;
UPDATE event SET note = note || ' changed ' || amount WHERE id % 5 = 0;
DELETE FROM event WHERE id % 11 = 0;
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO words SELECT note FROM event WHERE id % 4 = 0;
SELECT count(*) FROM words WHERE words MATCH 'changed';
SELECT sum(length(note)), count(DISTINCT substr(note, -4)) FROM event;
VACUUM;
PRAGMA integrity_check;
