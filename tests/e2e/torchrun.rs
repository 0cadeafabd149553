//! Scripts that were written for torchrun, and its command lines.

use std::{collections::BTreeSet, net::TcpListener, os::unix::fs::PermissionsExt};

use serde_json::Value;

use crate::harness::{Place, of_attempts};

#[test]
fn torchrun_s_command_line_starts_a_script_with_torchrun_s_environment() {
    let place = Place::new();
    let script = place.file(
        "script.py",
        "import json, os, sys, time
at = os.path.dirname(__file__)
rank, life = os.environ['RANK'], os.environ['TORCHELASTIC_RESTART_COUNT']
with open(f'{at}/part.{life}.{rank}', 'w') as file:
    json.dump({'argv': sys.argv[1:], **os.environ}, file)
os.rename(f'{at}/part.{life}.{rank}', f'{at}/env.{life}.{rank}')
if life == '0':
    while not os.path.exists(f'{at}/env.0.{1 - int(rank)}'): time.sleep(0.01)
    sys.exit(1 if rank == '1' else 0)
",
    );
    let (code, _) = place
        .start(&[
            "--name",
            "t",
            "--standalone",
            "--nnodes",
            "1",
            "--nproc-per-node",
            "2",
            "--max-restarts",
            "1",
            &script,
            "--arg",
            "x",
        ])
        .end();
    assert_eq!(code, 0);
    let shown = place.show("t");
    assert_eq!(of_attempts(&shown, "end_reason"), ["worker_failed", "completed"]);
    for life in ["0", "1"] {
        let mut ports = BTreeSet::new();
        for rank in ["0", "1"] {
            let env: Value = serde_json::from_str(&place.left(&format!("env.{life}.{rank}"))).unwrap();
            let expected = [
                ("RANK", rank),
                ("LOCAL_RANK", rank),
                ("ROLE_RANK", rank),
                ("GROUP_RANK", "0"),
                ("WORLD_SIZE", "2"),
                ("LOCAL_WORLD_SIZE", "2"),
                ("GROUP_WORLD_SIZE", "1"),
                ("ROLE_WORLD_SIZE", "2"),
                ("ROLE_NAME", "default"),
                ("MASTER_ADDR", "127.0.0.1"),
                ("TORCHELASTIC_RESTART_COUNT", life),
                ("TORCHELASTIC_MAX_RESTARTS", "1"),
                ("TORCHELASTIC_RUN_ID", shown["id"].as_str().unwrap()),
                ("TORCHELASTIC_USE_AGENT_STORE", "False"),
                ("TRAINHEAD_ATTEMPT", life),
                ("OMP_NUM_THREADS", "1"),
            ];
            for (name, value) in expected {
                assert_eq!(env[name], value, "{name}");
            }
            assert_eq!(env["argv"], serde_json::json!(["--arg", "x"]));
            assert!(env["TORCHELASTIC_ERROR_FILE"].as_str().unwrap().starts_with(&place.root()));
            ports.insert(env["MASTER_PORT"].as_str().unwrap().parse::<u16>().unwrap());
        }
        assert_eq!(ports.len(), 1, "one for both ranks: {ports:?}");
    }
}

#[test]
fn modules_and_programs_are_started_as_torchrun_does() {
    let place = Place::new();
    std::fs::create_dir(place.path("pkg")).unwrap();
    place.file("pkg/train.py", "import sys\nopen('module', 'w').write(f'{__name__} {sys.argv[1:]}')\n");
    let program = place.file("program.py", "#!/bin/sh\necho $RANK $@ > program\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let cwd = ["--nproc_per_node=1", "--cwd", &place.root()].map(str::to_owned);
    let cwd: Vec<&str> = cwd.iter().map(String::as_str).collect();
    let module = place.start(&[&cwd[..], &["-m", "pkg.train", "-x", "1"]].concat());
    let program = place.start(&[&cwd[..], &["--no-python", &program, "-m", "2"]].concat());
    assert_eq!((module.end().0, program.end().0), (0, 0));
    assert_eq!(place.left("module"), "__main__ ['-x', '1']");
    assert_eq!(place.left("program"), "0 -m 2");
}

#[test]
fn eight_runs_at_once_have_a_port_each_though_torchrun_s_is_taken() {
    let place = Place::new();
    // By this test, or by somebody else.
    let _taken = TcpListener::bind("127.0.0.1:29500");
    let script = place.file(
        "t.py",
        &format!(
            "import glob, os, socket, time
os.chdir('{}')
port = int(os.environ['MASTER_PORT'])
print('rank 0 listens on', port)
store = socket.create_server((os.environ['MASTER_ADDR'], port))
open('port.' + os.environ['TRAINHEAD_RUN_ID'], 'w').write(str(port))
# All hold theirs at the same time.
while len(glob.glob('port.*')) < 8: time.sleep(0.01)
",
            place.root()
        ),
    );
    let names: Vec<String> = (0..8).map(|i| format!("r{i}")).collect();
    let runs: Vec<_> = names
        .iter()
        .map(|name| {
            let args = ["--name", name, "--", "python3", &script];
            place.start_with(&args, &[("MASTER_PORT", "29500"), ("MASTER_ADDR", "10.1.1.1")])
        })
        .collect();
    for run in runs {
        assert_eq!(run.end().0, 0);
    }
    let mut addresses = BTreeSet::new();
    for name in &names {
        let shown = place.show(name);
        assert_eq!(shown["run_status"], "FINISHED");
        let port = place.left(&format!("port.{}", shown["id"].as_str().unwrap()));
        let last = shown["attempts"].as_array().unwrap().last().unwrap();
        assert_eq!(last["master_address"], format!("127.0.0.1:{port}"));
        addresses.insert(port);
    }
    assert_eq!(addresses.len(), 8);
}
