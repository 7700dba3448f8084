//! Announces a role and does nothing: `linger ROLE [IGNORED]...`

use tracker_tests::stage::{announce, linger};

pub fn play(arguments: &[String]) {
    announce(&arguments[0]);
    linger();
}
