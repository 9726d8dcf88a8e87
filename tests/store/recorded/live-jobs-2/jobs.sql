PRAGMA application_id = 1413566264;
PRAGMA user_version = 2;
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
INSERT INTO "attempts" VALUES('lost-1tb2y5gmkr',1,'local','@MACHINE@','0e526abd2e4fa5e9','[{"request":{"command":"[ \"$TAO_ATTEMPT\" = 2 ] || kill -9 $PPID; sleep 0.1; echo \"attempt $TAO_ATTEMPT\"","cwd":"@HOME@","environment":{"CUDA_VISIBLE_DEVICES":"","HOME":"@HOME@","MASTER_ADDR":"127.0.0.1","MASTER_PORT":"29500","NNODES":"1","NODE_RANK":"0","NPROC_PER_NODE":"1","NUM_GPU_PER_NODE":"0","PATH":"/usr/local/bin:/usr/bin:/bin","TAO_ATTEMPT":"1","TAO_GRACE":"10","TAO_JOB_ID":"lost-1tb2y5gmkr","TAO_RESULTS_DIR":"@HOME@/runs/lost-1tb2y5gmkr","TAO_RESULTS_ROOT":"@HOME@/runs","TAO_SDK_STATE_DIR":"@HOME@/state","WORLD_SIZE":"1"},"gpus":{"count":0,"asked":0,"ids":[],"from":[],"locks":"/run/lock"},"time_limit":0.0,"grace":10.0,"venv":"","inputs":{},"outside":[],"keeps":false,"mounts":false,"native":[]},"files":[],"secrets":[],"results_dir":"@HOME@/runs/lost-1tb2y5gmkr","notes":[],"backend_details":{"backend_type":"local","num_gpu":0,"job_dir":"@HOME@/state/local/lost-1tb2y5gmkr.1"},"release_when_over":false},{}]','{"platform":"local","endpoint":"@MACHINE@","namespace":"","native_id":"lost-1tb2y5gmkr.1","unique_id":"8ba2b714758d353ba314598da26bef72","ready":true,"step":"","retry_after":0.0,"details":{"job_dir":"@HOME@/state/local/lost-1tb2y5gmkr.1","results_dir":"@HOME@/runs/lost-1tb2y5gmkr"}}','');
INSERT INTO "attempts" VALUES('unseen-uqq5wznr35',1,'local','@MACHINE@','0e526abd2e4fa5e9','[{"request":{"command":"sleep 1; echo done","cwd":"@HOME@","environment":{"CUDA_VISIBLE_DEVICES":"","HOME":"@HOME@","MASTER_ADDR":"127.0.0.1","MASTER_PORT":"29500","NNODES":"1","NODE_RANK":"0","NPROC_PER_NODE":"1","NUM_GPU_PER_NODE":"0","PATH":"/usr/local/bin:/usr/bin:/bin","TAO_ATTEMPT":"1","TAO_GRACE":"10","TAO_JOB_ID":"unseen-uqq5wznr35","TAO_RESULTS_DIR":"@HOME@/runs/unseen-uqq5wznr35","TAO_RESULTS_ROOT":"@HOME@/runs","TAO_SDK_STATE_DIR":"@HOME@/state","WORLD_SIZE":"1"},"gpus":{"count":0,"asked":0,"ids":[],"from":[],"locks":"/run/lock"},"time_limit":0.0,"grace":10.0,"venv":"","inputs":{},"outside":[],"keeps":false,"mounts":false,"native":[]},"files":[],"secrets":[],"results_dir":"@HOME@/runs/unseen-uqq5wznr35","notes":[],"backend_details":{"backend_type":"local","num_gpu":0,"job_dir":"@HOME@/state/local/unseen-uqq5wznr35.1"},"release_when_over":false},{}]','{"platform":"local","endpoint":"@MACHINE@","namespace":"","native_id":"unseen-uqq5wznr35.1","unique_id":"9c6f10f4505576ed83ce927fe156cbd8","ready":true,"step":"","retry_after":0.0,"details":{"job_dir":"@HOME@/state/local/unseen-uqq5wznr35.1","results_dir":"@HOME@/runs/unseen-uqq5wznr35"}}','');
INSERT INTO "attempts" VALUES('late-vslc0gv4q8',1,'local','@MACHINE@','0e526abd2e4fa5e9','[{"request":{"command":"sleep 30","cwd":"@HOME@","environment":{"CUDA_VISIBLE_DEVICES":"","HOME":"@HOME@","MASTER_ADDR":"127.0.0.1","MASTER_PORT":"29500","NNODES":"1","NODE_RANK":"0","NPROC_PER_NODE":"1","NUM_GPU_PER_NODE":"0","PATH":"/usr/local/bin:/usr/bin:/bin","TAO_ATTEMPT":"1","TAO_GRACE":"10","TAO_JOB_ID":"late-vslc0gv4q8","TAO_RESULTS_DIR":"@HOME@/runs/late-vslc0gv4q8","TAO_RESULTS_ROOT":"@HOME@/runs","TAO_SDK_STATE_DIR":"@HOME@/state","WORLD_SIZE":"1"},"gpus":{"count":0,"asked":0,"ids":[],"from":[],"locks":"/run/lock"},"time_limit":1.0,"grace":10.0,"venv":"","inputs":{},"outside":[],"keeps":false,"mounts":false,"native":[]},"files":[],"secrets":[],"results_dir":"@HOME@/runs/late-vslc0gv4q8","notes":[],"backend_details":{"backend_type":"local","num_gpu":0,"job_dir":"@HOME@/state/local/late-vslc0gv4q8.1"},"release_when_over":false},{}]','{"platform":"local","endpoint":"@MACHINE@","namespace":"","native_id":"late-vslc0gv4q8.1","unique_id":"20c92e3257a96b081f0c9aee918e43cb","ready":true,"step":"","retry_after":0.0,"details":{"job_dir":"@HOME@/state/local/late-vslc0gv4q8.1","results_dir":"@HOME@/runs/late-vslc0gv4q8"}}','');
CREATE TABLE claims (
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            hook TEXT NOT NULL,
            key TEXT NOT NULL,
            PRIMARY KEY (job_id, hook, key)) WITHOUT ROWID;
CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            time TEXT NOT NULL,
            kind TEXT NOT NULL,
            status TEXT,
            raw TEXT NOT NULL,
            data TEXT NOT NULL);
INSERT INTO "events" VALUES(1,'lost-1tb2y5gmkr','2026-11-22T16:55:35.540192+00:00','status','Pending','submitting','{"attempt":1}');
INSERT INTO "events" VALUES(2,'lost-1tb2y5gmkr','2026-11-22T16:55:35.587158+00:00','status','Running','running, process 26930, its supervisor was killed','{"message":"running, process 26930, its supervisor was killed"}');
INSERT INTO "events" VALUES(3,'lost-1tb2y5gmkr','2026-11-22T16:55:35.696574+00:00','status','Pending','no exit record','{"message":"attempt 2 waits for a watcher: tao watch"}');
INSERT INTO "events" VALUES(4,'unseen-uqq5wznr35','2026-11-22T16:55:35.698576+00:00','status','Pending','submitting','{"attempt":1}');
INSERT INTO "events" VALUES(5,'unseen-uqq5wznr35','2026-11-22T16:55:35.726018+00:00','status','Running','running, process 26937','{"message":"running, process 26937"}');
INSERT INTO "events" VALUES(6,'late-vslc0gv4q8','2026-11-22T16:55:35.728453+00:00','status','Pending','submitting','{"attempt":1}');
INSERT INTO "events" VALUES(7,'late-vslc0gv4q8','2026-11-22T16:55:35.755829+00:00','status','Running','running, process 26942','{"message":"running, process 26942"}');
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
            revision INTEGER NOT NULL);
INSERT INTO "jobs" VALUES(1,'lost-1tb2y5gmkr','lost','local','Pending','attempt 2 waits for a watcher: tao watch',1,NULL,'',0,'{}',NULL,'{"epoch":0,"epochs":null,"metrics":{},"best_epoch":null,"best_metric":null,"best_value":null,"eta_seconds":null,"history":[],"not_finite":[],"counts_from_zero":false,"attempt":1,"cursor":"10","rest":"","as_of":"2026-11-22T16:55:35.697Z","whole":false,"pace":[null,null],"status_file":{"path":"","offset":0}}','2026-11-22T16:55:35.539828+00:00','2026-11-22T16:55:35.577308+00:00',NULL,'2026-11-22T16:55:35.694060+00:00','@HOME@/runs/lost-1tb2y5gmkr','{"backend_type":"local","num_gpu":0,"job_dir":"@HOME@/state/local/lost-1tb2y5gmkr.1","results_dir":"@HOME@/runs/lost-1tb2y5gmkr"}','[{"command":"[ \"$TAO_ATTEMPT\" = 2 ] || kill -9 $PPID; sleep 0.1; echo \"attempt $TAO_ATTEMPT\"","name":"lost","gpu_count":0,"retries":1,"packed":"[ \"$TAO_ATTEMPT\" = 2 ] || kill -9 $PPID; sleep 0.1; echo \"attempt $TAO_ATTEMPT\""},{}]','[{"gpu_ids":[],"venv_path":""},{}]',0,0,5);
INSERT INTO "jobs" VALUES(2,'unseen-uqq5wznr35','unseen','local','Running','not seen since: connection refused',1,NULL,'',0,'{}',NULL,'{"epoch":0,"epochs":null,"metrics":{},"best_epoch":null,"best_metric":null,"best_value":null,"eta_seconds":null,"history":[],"not_finite":[],"counts_from_zero":false,"attempt":1,"cursor":"","rest":"","as_of":"2026-11-22T16:55:35.726Z","whole":false,"pace":[null,null],"status_file":{"path":"","offset":0}}','2026-11-22T16:55:35.698484+00:00','2026-11-22T16:55:35.719950+00:00',NULL,'2026-11-22T16:55:35.725940+00:00','@HOME@/runs/unseen-uqq5wznr35','{"backend_type":"local","num_gpu":0,"job_dir":"@HOME@/state/local/unseen-uqq5wznr35.1","results_dir":"@HOME@/runs/unseen-uqq5wznr35"}','[{"command":"sleep 1; echo done","name":"unseen","gpu_count":0,"packed":"sleep 1; echo done"},{}]','[{"gpu_ids":[],"venv_path":""},{}]',0,0,4);
INSERT INTO "jobs" VALUES(3,'late-vslc0gv4q8','late','local','Running','running, process 26942',1,NULL,'',0,'{}',NULL,'{"epoch":0,"epochs":null,"metrics":{},"best_epoch":null,"best_metric":null,"best_value":null,"eta_seconds":null,"history":[],"not_finite":[],"counts_from_zero":false,"attempt":1,"cursor":"","rest":"","as_of":"2026-11-22T16:55:35.756Z","whole":false,"pace":[null,null],"status_file":{"path":"","offset":0}}','2026-11-22T16:55:35.728378+00:00','2026-11-22T16:55:35.748620+00:00',NULL,'2026-11-22T16:55:35.755755+00:00','@HOME@/runs/late-vslc0gv4q8','{"backend_type":"local","num_gpu":0,"job_dir":"@HOME@/state/local/late-vslc0gv4q8.1","results_dir":"@HOME@/runs/late-vslc0gv4q8"}','[{"command":"sleep 30","name":"late","gpu_count":0,"time_limit":"1s","packed":"sleep 30"},{}]','[{"gpu_ids":[],"venv_path":""},{}]',0,0,3);
CREATE TABLE labels (
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            number INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
            PRIMARY KEY (key, value, number)) WITHOUT ROWID;
CREATE TABLE leases (
            name TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            taken REAL NOT NULL,
            seconds REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('store_id','0e526abd2e4fa5e9');
CREATE TABLE payloads (
            sha256 TEXT NOT NULL,
            job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
            PRIMARY KEY (sha256, job_id)) WITHOUT ROWID;
CREATE INDEX jobs_by_status ON jobs (status);
CREATE INDEX jobs_by_platform ON jobs (platform, status);
CREATE INDEX jobs_by_parent ON jobs (parent) WHERE parent IS NOT NULL;
CREATE INDEX jobs_by_name ON jobs (name);
CREATE INDEX labels_by_job ON labels (number);
CREATE INDEX events_by_job ON events (job_id);
CREATE INDEX payloads_by_job ON payloads (job_id);
CREATE INDEX events_of_hooks ON events (kind) WHERE kind >= 'hook' AND kind < 'hool';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',7);
COMMIT;
