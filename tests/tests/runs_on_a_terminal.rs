//! `run` on a terminal: what is typed reaches the command, once.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};

use nix::pty::openpty;
use tracker_tests::{Life, Scene, on_all_sources, raw, tracker_binary, until};

/// A terminal with a shell that has job control, as a person has it.
struct Terminal {
    keys: File,
    screen: Receiver<u8>,
    shown: String,
    shell: std::process::Child,
}

impl Terminal {
    fn new(scene: &Scene, script: &str) -> Terminal {
        let pty = openpty(None, None).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut command = scene.command("bash");
        command
            .args(["--norc", "-m", "-c", script])
            .env("T", tracker_binary())
            .stdin(end(&pty.slave))
            .stdout(end(&pty.slave))
            .stderr(end(&pty.slave));
        raw::own_terminal(&mut command);
        let shell = command.spawn().unwrap();
        let (tell, screen) = channel();
        let mut output = File::from(pty.master.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut byte = [0];
            // EIO: everybody has closed the terminal.
            while output.read_exact(&mut byte).is_ok() && tell.send(byte[0]).is_ok() {}
        });
        let keys = File::from(pty.master);
        Terminal {
            keys,
            screen,
            shown: String::new(),
            shell,
        }
    }

    fn press(&mut self, key: u8) {
        self.keys.write_all(&[key]).unwrap();
    }

    /// Waits until this has been shown.
    #[track_caller]
    fn await_text(&mut self, text: &str) {
        until(text, || {
            self.shown.extend(self.screen.try_iter().map(char::from));
            self.shown.contains(text).then_some(())
        });
    }

    #[track_caller]
    fn finish(mut self) -> String {
        until("the shell's end", || self.shell.try_wait().unwrap());
        self.shown.extend(self.screen.try_iter().map(char::from));
        self.shown
    }
}

const CONTROL_C: u8 = 3;
const CONTROL_Z: u8 = 26;

on_all_sources!(an_interrupt_reaches_the_command_once, |source| {
    let scene = Scene::on(source);
    let script = format!(
        "\"$T\" run --source {} -- sh -c '
            trap \"echo interrupted\" INT; echo ready
            until [ -e leave ]; do sleep .02; done; exit 7'; echo status $?",
        source.flag()
    );
    let mut terminal = Terminal::new(&scene, &script);
    terminal.await_text("ready");
    terminal.press(CONTROL_C);
    terminal.await_text("interrupted");
    scene.touch("leave");
    terminal.await_text("status 7");
    let shown = terminal.finish();
    assert_eq!(shown.matches("interrupted").count(), 1, "{shown}");
});

on_all_sources!(
    an_interrupt_ends_the_command_and_what_it_left_behind,
    |source| {
        let mut scene = Scene::on(source);
        let script = format!(
        "\"$T\" run --source {} --grace 200ms -- sh -c '\"$V\" stubborn; exec \"$V\" linger main'
         echo status $?",
        source.flag()
    );
        let mut terminal = Terminal::new(&scene, &script);
        scene.await_cast("main", 1);
        terminal.press(CONTROL_C);
        terminal.await_text("status 130");
        terminal.finish();
        scene.assert_all_dead();
    }
);

on_all_sources!(
    the_command_is_stopped_and_continued_with_tracker,
    |source| {
        let mut scene = Scene::on(source);
        let script = format!(
            "\"$T\" run --source {} -- \"$V\" linger main; echo stopped $?; read -r go; fg; echo ended $?",
            source.flag()
        );
        let mut terminal = Terminal::new(&scene, &script);
        let main = scene.await_cast("main", 1)[0];
        terminal.press(CONTROL_Z);
        // 128 + SIGTSTP
        terminal.await_text("stopped 148");
        until("the stop", || match main.life() {
            Life::Alive(stat) => (stat.state == 'T').then_some(()),
            life => panic!("{life:?}"),
        });
        terminal.press(b'\n');
        until("that it goes on", || match main.life() {
            Life::Alive(stat) => (stat.state == 'S').then_some(()),
            life => panic!("{life:?}"),
        });
        terminal.press(CONTROL_C);
        terminal.await_text("ended 130");
        terminal.finish();
        scene.assert_all_dead();
    }
);

on_all_sources!(the_command_has_the_terminal, |source| {
    let scene = Scene::on(source);
    let script = format!(
        "\"$T\" run --source {} -- sh -c 'tty; read -r line; echo \"read <$line>\"'; echo status $?",
        source.flag()
    );
    let mut terminal = Terminal::new(&scene, &script);
    terminal.await_text("/dev/pts/");
    for key in b"hello\n" {
        terminal.press(*key);
    }
    terminal.await_text("read <hello>");
    terminal.await_text("status 0");
    terminal.finish();
});
