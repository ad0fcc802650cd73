-- sqlite3 in memory: every page of the database, every sorter and every row in flight is a block.
CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, town TEXT, born INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)
INSERT INTO person
SELECT i, printf('name %x of many', (i * 7919) % 1000003), printf('town %d', (i * 104729) % 997),
       1900 + (i * 31) % 120 FROM n;
CREATE INDEX person_name ON person(name);
CREATE INDEX person_town ON person(town, born);
SELECT town, count(*), avg(born) FROM person GROUP BY town ORDER BY 2 DESC, 1 LIMIT 5;
SELECT count(*) FROM person a JOIN person b ON a.town = b.town AND a.born = b.born + 1;
SELECT group_concat(name, ',') FROM (SELECT name FROM person ORDER BY name DESC LIMIT 20);
SELECT json_group_array(json_object('id', id, 'name', name))
  FROM (SELECT id, name FROM person ORDER BY town, id LIMIT 5);
UPDATE person SET name = upper(name) || ' ' || town WHERE id % 3 = 0;
DELETE FROM person WHERE id % 5 = 0;
SELECT count(*), sum(length(name)), max(name) FROM person;
