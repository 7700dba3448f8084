//! What the daemon knows, as the API shows it.

use std::collections::HashMap;

use crate::api;
use crate::lineage::{ExitSeen, Node, SessionId, WaitStatus};
use crate::process::escape;
use crate::session::Session;

pub(super) fn session(session: &Session, alive: &HashMap<SessionId, u64>) -> api::SessionInfo {
    api::SessionInfo {
        id: session.id,
        name: session.name.clone(),
        roots: session.roots.iter().copied().map(Into::into).collect(),
        parent: session.parent,
        owner_uid: session.owner_uid,
        keep: session.keep.iter().map(ToString::to_string).collect(),
        workdir: session
            .workdir
            .as_ref()
            .map(|workdir| workdir.path.as_path().into()),
        opened_ns: session.opened_ns,
        state: session.state,
        alive: alive.get(&session.id).copied().unwrap_or(0),
    }
}

pub(super) fn process(node: &Node) -> api::Process {
    api::Process {
        id: node.id.into(),
        creator: node.creator.map(Into::into),
        skipped_ancestors: node.skipped_ancestors,
        below: None,
        session: node.tag.map(|tag| tag.session),
        kept: node.tag.is_some_and(|tag| tag.exempt),
        comm: escape(&node.comm),
        exe: node.exe.as_deref().map(escape),
        cmdline: node.argv.as_deref().map(arguments),
        truncated: node.truncated,
        uid: node.uid,
        fork_ns: node.fork_ns,
        exec_ns: node.exec_ns,
        exit: node
            .exit
            .map(|ExitSeen { time_ns, status }| exit(time_ns, status)),
    }
}

pub(super) fn exit(time_ns: u64, status: Option<WaitStatus>) -> api::Exit {
    api::Exit {
        time_ns,
        code: status.and_then(WaitStatus::code),
        signal: status.and_then(WaitStatus::signal),
    }
}

pub(super) fn arguments(argv: &[Vec<u8>]) -> Vec<String> {
    argv.iter().map(|argument| escape(argument)).collect()
}
