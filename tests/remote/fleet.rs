//! The files of `examples/fleet`: run where their engine can be had, compared with its schema where not.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::bundle::*;
use crate::common::crash::{plain, rounds, succeeds};
use crate::common::run::{BEDLOAD, Place, hermetic};
use crate::remote::bad_shards::set;
use crate::remote::servers::{Running, debian, free_port, python};
use crate::remote::{needs, runs};

/// Time in which a daemon must be ready, or an array must end.
const PATIENCE: Duration = Duration::from_secs(120);

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fleet").join(name)
}

/// `PATH` with this program, and `first` before all.
fn path(first: &Path) -> String {
    let own = Path::new(BEDLOAD).parent().expect("a folder");
    format!("{}:{}:{}:/usr/sbin", first.display(), own.display(), std::env::var("PATH").unwrap_or_default())
}

/// A cluster of one machine, with its key and ports.
struct Slurm {
    place: Place,
    /// They end with it.
    #[allow(dead_code, reason = "held")]
    daemons: Vec<Running>,
}

impl Slurm {
    fn start() -> Self {
        let place = Place::in_memory();
        let dir = place.path("");
        let dir = dir.to_str().expect("text").trim_end_matches('/').to_owned();
        for name in ["state", "spool"] {
            place.dir(name);
        }
        // munged takes a key that only its user may read.
        let key = place.file("key", &crate::common::car::noise(u64::from(std::process::id()), 128));
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
        let host = runs(hermetic("hostname").arg("-s"));
        // No accounting, no cgroups; four tasks at once, whatever the machine has.
        let conf = format!(
            "ClusterName=bedload\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={dir}/munge\nCredType=cred/munge\n\
             SlurmctldPort={}\nSlurmdPort={}\nSlurmctldPidFile={dir}/slurmctld.pid\nSlurmdPidFile={dir}/slurmd.pid\n\
             StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool\nSlurmctldLogFile={dir}/slurmctld.log\n\
             SlurmdLogFile={dir}/slurmd.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
             SlurmdParameters=config_overrides\nSchedulerParameters=sched_interval=1,batch_sched_delay=0\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=65536 State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            free_port(),
            free_port()
        );
        place.file("slurm.conf", conf.as_bytes());
        let mut slurm = Self { place, daemons: Vec::new() };
        let munge = format!("--key-file={dir}/key --socket={dir}/munge --pid-file={dir}/munge.pid");
        let files = format!("--log-file={dir}/munge.log --seed-file={dir}/seed");
        let munged: Vec<&str> = munge.split(' ').chain(files.split(' ')).chain(["--foreground", "--force"]).collect();
        slurm.daemon("munged", &munged, |slurm| slurm.place.path("munge").exists());
        let conf = format!("{dir}/slurm.conf");
        slurm.daemon("slurmctld", &["-D", "-f", &conf], |slurm| succeeds(&mut slurm.command("scontrol", &["ping"])));
        slurm.daemon("slurmd", &["-D", "-f", &conf, "-N", &host], |slurm| {
            let states = slurm.command("sinfo", &["--noheader", "--format=%t"]).output().expect("it runs");
            states.stdout.starts_with(b"idle")
        });
        slurm
    }

    /// Starts a daemon, and waits until it is ready.
    fn daemon(&mut self, program: &str, args: &[&str], is_ready: impl Fn(&Self) -> bool) {
        let log = std::fs::File::create(self.place.path(&format!("{program}.out"))).expect("a file");
        let mut command = debian(program);
        command.args(args).stdout(log.try_clone().expect("a handle")).stderr(log);
        self.daemons.push(Running::start(command));
        let started = Instant::now();
        while !is_ready(self) {
            assert!(started.elapsed() < PATIENCE, "{program} does not become ready:\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn logs(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.place.path(name)).unwrap_or_default();
        ["munge.log", "munged.out", "slurmctld.out", "slurmctld.log", "slurmd.out", "slurmd.log"].map(read).join("\n")
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = debian(program);
        command.args(args).env("SLURM_CONF", self.place.path("slurm.conf"));
        command
    }

    /// Submits, and returns what it says.
    fn sbatch(&self, environment: &[(&str, &Path)], args: &[&str]) -> String {
        let mut command = hermetic("env");
        command.arg(format!("PATH={}", path(Path::new("/usr/local/bin")))).arg("sbatch").args(args);
        command.env("SLURM_CONF", self.place.path("slurm.conf")).envs(environment.iter().copied());
        let output = command.current_dir(self.place.path("")).output().expect("it runs");
        assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stderr), self.logs());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

#[test]
fn slurm_array_makes_a_bundle() {
    let daemons = ["slurmctld", "slurmd", "munged"];
    let has_slurm = crate::common::is_root() && daemons.iter().all(|daemon| succeeds(debian(daemon).arg("-V")));
    if !needs(has_slurm && rounds(0, 1) == 1, "Slurm, root, and BEDLOAD_LONG_TESTS=1") {
        return;
    }
    let slurm = Slurm::start();
    let (to, scratch) = (slurm.place.path("bundles"), slurm.place.dir("scratch"));
    let environment = [("SNAPSHOT", plain().file.as_path()), ("BUNDLES", to.as_path()), ("SCRATCH", scratch.as_path())];
    let file = example("slurm.sbatch");
    let file = file.to_str().expect("text");
    // As the file says; four tasks at once fit this machine.
    let few = ["--cpus-per-task=1", "--mem=1G", "--parsable"];
    let array = slurm.sbatch(&environment, &[&few[..], &[file]].concat());
    let after = format!("--dependency=afterok:{array}");
    let joining =
        [&few[..], &["--wait", "--kill-on-invalid-dep=yes", &after, "--wrap", "bedload bundle --join \"$BUNDLES\""]]
            .concat();
    slurm.sbatch(&environment, &joining);
    assert_eq!(scratch.read_dir().expect("a folder").count(), 0, "shards are left over");
    seed(&to, &slurm.place.path("y")).seeds(plain());
    // A shard that is lost is run again alone, under the number that it had.
    let part = set(&to).join("5.json");
    std::fs::remove_file(&part).expect("gone");
    slurm.sbatch(&environment, &[&few[..], &["--wait", "--array=5", file]].concat());
    assert!(part.exists());
    join(&to).succeeds();
}

#[test]
fn gnu_parallel_makes_a_bundle() {
    let version = hermetic("parallel").arg("--version").output();
    let is_gnu = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("GNU parallel"));
    if !needs(is_gnu, "GNU parallel") {
        return;
    }
    let place = Place::in_memory();
    let (to, scratch) = (place.path("bundles"), place.dir("scratch"));
    let mut command = hermetic(example("parallel.sh"));
    command.env("SNAPSHOT", &plain().file).env("BUNDLES", &to).env("SCRATCH", &scratch);
    runs(command.env("PATH", path(&scratch)));
    assert_eq!(scratch.read_dir().expect("a folder").count(), 0, "shards are left over");
    seed(&to, &place.path("y")).seeds(plain());
}

#[test]
fn schemas_accept_the_jobs() {
    let has_schemas = succeeds(python("fleet").args(["-c", "import botocore.validate, kubernetes_validate"]));
    if needs(has_schemas, "the schemas of scripts/fleet") {
        kubernetes_accepts_the_jobs();
        aws_accepts_the_jobs();
    }
}

fn kubernetes_accepts_the_jobs() {
    let check = |file: &Path| {
        let args = ["-m", "kubernetes_validate", "--kubernetes-version", "1.33", "--strict"];
        python("fleet").args(args).arg(file).output().expect("it runs")
    };
    let output = check(&example("kubernetes.yaml"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // The check can fail.
    let place = Place::in_memory();
    let text = std::fs::read_to_string(example("kubernetes.yaml")).expect("text");
    let other = place.file("other.yaml", text.replace("completionMode", "completingMode").as_bytes());
    assert!(!check(&other).status.success());
}

/// Takes the place of `aws`: compares what it is asked for with the model of the service, and answers as that does.
const AWS: &str = r#"#!/usr/bin/env python3
import json, sys
import botocore.session, botocore.validate
assert sys.argv[1] == "batch", sys.argv
operation = "".join(word.capitalize() for word in sys.argv[2].split("-"))
text = sys.argv[sys.argv.index("--cli-input-json") + 1]
given = json.loads(open(text.removeprefix("file://")).read() if text.startswith("file://") else text)
shape = botocore.session.get_session().get_service_model("batch").operation_model(operation).input_shape
report = botocore.validate.ParamValidator().validate(given, shape)
unknown = set(given) - set(shape.members)
assert not report.has_errors() and not unknown, (report.generate_report(), unknown)
open(sys.argv[0] + ".log", "a").write(json.dumps([operation, given]) + "\n")
print("an-id")
"#;

fn aws_accepts_the_jobs() {
    let place = Place::in_memory();
    let aws = place.file("aws", AWS.as_bytes());
    std::fs::set_permissions(&aws, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let run = |script: &Path| {
        let variables = [("QUEUE", "queue"), ("SNAPSHOT", "s3://bucket/a.car"), ("BUNDLES", "s3://bucket/main")];
        let mut command = hermetic("bash");
        command.arg(script).envs(variables);
        command.env("PATH", path(&place.path(""))).envs(python("fleet").get_envs().filter_map(|(k, v)| Some((k, v?))));
        command.output().expect("it runs")
    };
    let output = run(&example("aws-batch.sh"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(place.path("aws.log")).expect("a log");
    let calls: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let operations: Vec<_> = calls.iter().map(|call| call[0].as_str().expect("text")).collect();
    assert_eq!(operations, ["RegisterJobDefinition", "SubmitJob", "SubmitJob"]);
    assert_eq!(calls[1][1]["arrayProperties"]["size"], 16);
    assert_eq!(calls[1][1]["parameters"]["bundles"], "s3://bucket/main");
    assert_eq!(calls[2][1]["dependsOn"][0]["jobId"], "an-id");
    // The check can fail.
    let script =
        std::fs::read_to_string(example("aws-batch.sh")).expect("text").replace("\"size\": 16", "\"size\": \"16\"");
    place.file("aws-batch.json", &std::fs::read(example("aws-batch.json")).expect("a file"));
    assert!(!run(&place.file("aws-batch.sh", script.as_bytes())).status.success());
}
