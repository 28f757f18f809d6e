//! An etcd that wants to see certificates and a password.

use std::fs;

use anyhow::{Result, ensure};
use volvox_testbed::lab::{self, Authority, Etcd, Node, Pod, Setup, Validity, wait_for};

use super::setup::{announce, start_with, wait_for_announcement};

const PASSWORD: &str = "nobody-knows";

/// Writes the file by which the agent finds etcd.
fn write_config(password: &str, authority: &str) -> Result<()> {
    let file = |name: &str| lab::path("certificates").join(name).display().to_string();
    let text = format!(
        "endpoints: [\"https://127.0.0.1:2379\"]\ntrusted-ca-file: {}\ncert-file: {}\n\
         key-file: {}\nusername: node\npassword: {password}\n",
        file(authority),
        file("node.pem"),
        file("node.key"),
    );
    Ok(fs::write(lab::path("etcd.yaml"), text)?)
}

/// A node whose etcd lets in who has a certificate of the authority, and the password.
fn guarded() -> Result<(Node, Etcd, Pod, Authority)> {
    let authority = Authority::create(&lab::path("certificates"))?;
    for name in ["etcd", "lab", "node"] {
        authority.sign(name, Validity::Today)?;
    }
    let mut etcd = Etcd::start_guarded(&lab::path("etcd"), &authority)?;
    etcd.want_password("node", PASSWORD, "cilium")?;
    write_config(PASSWORD, "ca.pem")?;
    let option = format!("etcd.config={}", lab::path("etcd.yaml").display());
    let (node, web) = start_with(&etcd, Setup::new().flag("kvstore-opt", &option))?;
    Ok((node, etcd, web, authority))
}

/// Waits until the agent says why it does not share the store, in these words.
fn wait_for_reason(node: &Node, words: &[&str]) -> Result<()> {
    let said = std::cell::RefCell::new(String::new());
    let waited = wait_for("the agent says what is wrong", || {
        said.replace(node.volvox("why -o wide")?);
        Ok(words.iter().all(|word| said.borrow().contains(word)))
    });
    ensure!(waited.is_ok(), "not said: {words:?}; it says {}", said.borrow());
    Ok(())
}

#[test]
fn a_wrong_password_is_named_and_a_right_one_needs_no_restart() {
    lab::test("trust::a_wrong_password_is_named_and_a_right_one_needs_no_restart", || {
        let (mut node, etcd, web, _) = guarded()?;
        wait_for_announcement(&etcd, &web)?;
        let lets_in = node.lets_in()?;
        node.kill_agent()?;
        write_config("guessed", "ca.pem")?;
        node.start_agent()?;
        node.wait_for_ready(1)?;
        node.wait_for_store("Failure")?;
        wait_for_reason(&node, &["password", "etcd.config"])?;
        ensure!(node.mapped("10.99.0.1/32")? == Some(40_000), "an address is forgotten");
        ensure!(node.lets_in()? == lets_in, "{lets_in:?} became {:?}", node.lets_in()?);
        write_config(PASSWORD, "ca.pem")?;
        announce(&etcd, "10.99.0.2", 40_000)?;
        node.wait_until_mapped("10.99.0.2/32", Some(40_000))?;
        node.wait_for_store("Ok")
    });
}

#[test]
fn certificates_that_are_over_missing_or_of_others_are_named() {
    lab::test("trust::certificates_that_are_over_missing_or_of_others_are_named", || {
        let (mut node, mut etcd, web, authority) = guarded()?;
        wait_for_announcement(&etcd, &web)?;
        // The server's is over.
        authority.sign("etcd", Validity::Over)?;
        etcd.kill()?;
        etcd.start_again()?;
        node.wait_for_store("Failure")?;
        wait_for_reason(&node, &["certificate expired", "etcd.config"])?;
        ensure!(node.mapped("10.99.0.1/32")? == Some(40_000), "an address is forgotten");
        authority.sign("etcd", Validity::Today)?;
        etcd.kill()?;
        etcd.start_again()?;
        node.wait_for_store("Ok")?;
        // Ours is over; the agent reads it when it first connects, and when it does so in vain.
        authority.sign("node", Validity::Over)?;
        node.kill_agent()?;
        node.start_agent()?;
        node.wait_for_store("Failure")?;
        wait_for_reason(&node, &["takes this node's certificate", "etcd.config"])?;
        authority.sign("node", Validity::Today)?;
        node.wait_for_store("Ok")?;
        // Nobody knows who signed the server's.
        write_config(PASSWORD, "nowhere.pem")?;
        node.kill_agent()?;
        node.start_agent()?;
        wait_for_reason(&node, &["nowhere.pem"])?;
        let other = Authority::create(&node.path("others"))?;
        fs::copy(other.place().join("ca.pem"), authority.place().join("nowhere.pem"))?;
        wait_for_reason(&node, &["invalid peer certificate", "etcd.config"])?;
        write_config(PASSWORD, "ca.pem")?;
        announce(&etcd, "10.99.0.2", 40_000)?;
        node.wait_until_mapped("10.99.0.2/32", Some(40_000))?;
        node.wait_for_store("Ok")
    });
}
