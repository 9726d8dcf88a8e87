PRAGMA application_id = 1413566264;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE attempts (
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            platform TEXT NOT NULL,
            endpoint TEXT NOT NULL,
            store_id TEXT NOT NULL,
            plan TEXT NOT NULL,
            ref TEXT,
            log_cursor TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (job_id, number));
INSERT INTO "attempts" VALUES('digits-0000000001',1,'local','host-1','b0ed7da52d47c48f','[{"request":{"command":"python train.py"},"files":[]},{}]','{"platform":"local","endpoint":"host-1","namespace":"","native_id":"101","unique_id":"u1","ready":true,"step":"","retry_after":0.0,"details":{}}','');
INSERT INTO "attempts" VALUES('digits-0000000002',1,'local','host-1','b0ed7da52d47c48f','[{"request":{"command":"python train.py"},"files":[]},{}]','{"platform":"local","endpoint":"host-1","namespace":"","native_id":"102","unique_id":"u2","ready":true,"step":"","retry_after":0.0,"details":{}}','');
INSERT INTO "attempts" VALUES('segformer-0000000003',1,'local','host-1','b0ed7da52d47c48f','[{"request":{"command":"python train.py"},"files":[]},{}]',NULL,'');
CREATE TABLE claims (
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            hook TEXT NOT NULL,
            key TEXT NOT NULL,
            PRIMARY KEY (job_id, hook, key)) WITHOUT ROWID;
INSERT INTO "claims" VALUES('digits-0000000001','on_error','callback');
CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            time TEXT NOT NULL,
            kind TEXT NOT NULL,
            status TEXT,
            raw TEXT NOT NULL,
            data TEXT NOT NULL);
INSERT INTO "events" VALUES(1,'digits-0000000001','2026-11-21T06:04:54.984488+00:00','status','Pending','','{"attempt":1}');
INSERT INTO "events" VALUES(2,'digits-0000000001','2026-11-21T06:04:54.985862+00:00','status','Complete','seen','{}');
INSERT INTO "events" VALUES(3,'digits-0000000002','2026-11-21T06:04:54.986109+00:00','status','Pending','','{"attempt":1}');
INSERT INTO "events" VALUES(4,'digits-0000000002','2026-11-21T06:04:54.986968+00:00','status','Running','seen','{}');
INSERT INTO "events" VALUES(5,'segformer-0000000003','2026-11-21T06:04:54.987121+00:00','status','Pending','','{"attempt":1}');
INSERT INTO "events" VALUES(6,'digits-0000000001','2026-11-21T06:04:54.987805+00:00','hook-due',NULL,'','{"hook":"on_complete"}');
CREATE TABLE idempotency_keys (
            key TEXT PRIMARY KEY,
            request TEXT NOT NULL,
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE jobs (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            platform TEXT NOT NULL,
            status TEXT NOT NULL,
            message TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            exit_code INTEGER,
            image TEXT NOT NULL,
            gpu_count INTEGER NOT NULL,
            labels TEXT NOT NULL,
            parent TEXT,
            progress TEXT NOT NULL,
            created TEXT NOT NULL,
            started TEXT,
            ended TEXT,
            seen_at TEXT,
            results_dir TEXT NOT NULL,
            backend_details TEXT NOT NULL,
            spec TEXT NOT NULL,
            options TEXT NOT NULL,
            cancel_asked INTEGER NOT NULL,
            absent_looks INTEGER NOT NULL,
            revision INTEGER NOT NULL, reason_code TEXT, next_attempt_at TEXT);
INSERT INTO "jobs" VALUES(1,'digits-0000000001','digits','local','Complete','',1,0,'python:3.11',0,'{"team":"vision"}',NULL,'{"epoch":1}','2026-11-21T06:01:00+00:00','2026-11-21T06:10:00+00:00',NULL,NULL,'','{}','[{"command":"python train.py","hooks":{"on_complete":"true"}},{}]','[{"venv_path":"/opt/venv"},{}]',0,0,1,NULL,NULL);
INSERT INTO "jobs" VALUES(2,'digits-0000000002','digits','local','Running','',1,NULL,'python:3.11',0,'{"team":"vision"}',NULL,'{"epoch":2}','2026-11-21T06:02:00+00:00','2026-11-21T06:10:00+00:00',NULL,NULL,'','{}','[{"command":"python train.py","hooks":{"on_complete":"true"}},{}]','[{"venv_path":"/opt/venv"},{}]',0,0,1,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'segformer-0000000003','segformer','local','Pending','',1,NULL,'python:3.11',0,'{"team":"vision"}','digits-0000000001','{}','2026-11-21T06:03:00+00:00',NULL,NULL,NULL,'','{}','[{"command":"python train.py","hooks":{"on_complete":"true"}},{}]','[{"venv_path":"/opt/venv"},{}]',0,0,0,NULL,NULL);
CREATE TABLE labels (
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            number INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
            PRIMARY KEY (key, value, number)) WITHOUT ROWID;
INSERT INTO "labels" VALUES('team','vision',1);
INSERT INTO "labels" VALUES('team','vision',2);
INSERT INTO "labels" VALUES('team','vision',3);
CREATE TABLE leases (
            name TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            taken REAL NOT NULL,
            seconds REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('store_id','b0ed7da52d47c48f');
CREATE TABLE payloads (
            sha256 TEXT NOT NULL,
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            PRIMARY KEY (sha256, job_id)) WITHOUT ROWID;
CREATE TABLE search_trials (
            search TEXT NOT NULL REFERENCES searches (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            trial TEXT NOT NULL,
            PRIMARY KEY (search, number)) WITHOUT ROWID;
CREATE TABLE searches (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            status TEXT NOT NULL,
            message TEXT NOT NULL,
            created TEXT NOT NULL,
            ended TEXT,
            seconds REAL NOT NULL,
            round INTEGER NOT NULL,
            stop_asked TEXT NOT NULL,
            head TEXT NOT NULL,
            template TEXT NOT NULL,
            revision INTEGER NOT NULL);
CREATE INDEX jobs_by_status ON jobs (status);
CREATE INDEX jobs_by_platform ON jobs (platform, status);
CREATE INDEX jobs_by_parent ON jobs (parent) WHERE parent IS NOT NULL;
CREATE INDEX jobs_by_name ON jobs (name);
CREATE INDEX labels_by_job ON labels (number);
CREATE INDEX events_by_job ON events (job_id);
CREATE INDEX payloads_by_job ON payloads (job_id);
CREATE INDEX events_of_hooks ON events (kind) WHERE kind >= 'hook' AND kind < 'hool';
CREATE INDEX idempotency_keys_by_job ON idempotency_keys (job_id);
CREATE INDEX searches_by_name ON searches (name);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',6);
COMMIT;
