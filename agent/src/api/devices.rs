//! What is not as it should be with the node's devices.

use volvox_actors::node::devices::{DeviceStatus, DevicesStatus};

use super::troubles::Trouble;

/// What is wrong: names that no interface has, interfaces that cannot run programs, what fails.
pub(super) fn troubles(status: &DevicesStatus) -> Vec<Trouble> {
    let missing = status.missing.iter().map(|name| {
        let text = format!(
            "--devices names {name}, and there is no such interface: what comes by it is not seen \
             until there is one"
        );
        Trouble::new(format!("device-{name}"), 0, text)
    });
    let passed_over = status.passed_over.iter().map(|(name, why)| {
        let text = format!(
            "interface {name} leads out and runs no programs, {why}: what goes by it is not \
             masqueraded, and services are not reached through it; name others by --devices"
        );
        Trouble::new(format!("device-{name}"), 0, text)
    });
    let failing = status.failing.iter().map(|(name, why)| {
        let text = format!("device {name} is not as it is to be: {why}; tried again");
        Trouble::new(format!("device-{name}"), 1, text)
    });
    let failed = status.last_error.iter().map(|error| {
        let text = format!("the node's devices are not as they are to be: {error}; tried again");
        Trouble::new("devices", 1, text)
    });
    let behind = status.devices.iter().filter_map(|device| {
        let trouble = device.trouble.as_ref()?;
        let text = format!(
            "device {}: {trouble}: where there are TCX links ours are put before it; if that stays so, see what \
             attaches it",
            device.name
        );
        Some(Trouble::new(format!("device-{}", device.name), 1, text))
    });
    let awaited = status.devices.iter().filter(|device| {
        !device.attached && device.trouble.is_none() && !status.failing.contains_key(&device.name)
    });
    let awaited = awaited.map(|DeviceStatus { name, .. }| {
        let text = format!(
            "device {name} runs no programs yet: what goes by it is not masqueraded, and services are \
             not reached through it"
        );
        Trouble::new(format!("device-{name}"), 0, text)
    });
    let mount = status.mount.iter().map(|text| Trouble::new("bpf-file-system", 1, text.clone()));
    let programs = status.programs.iter().map(|text| Trouble::new("programs", 1, text.clone()));
    let own = missing.chain(mount).chain(programs).chain(passed_over).chain(awaited);
    own.chain(behind).chain(failing).chain(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_at_which_something_fails_is_named() {
        let failing = [("eth0".to_owned(), "attach: no memory".to_owned())].into();
        let status = DevicesStatus { failing, ..DevicesStatus::default() };
        let [trouble] = troubles(&status).try_into().unwrap();
        assert_eq!(trouble.name, "device-eth0");
        assert_eq!(
            trouble.text,
            "device eth0 is not as it is to be: attach: no memory; tried again"
        );
    }

    #[test]
    fn a_device_without_programs_is_named_once() {
        let device = DeviceStatus {
            name: "eth0".to_owned(),
            ifindex: 2,
            addresses: "192.0.2.1".parse::<std::net::IpAddr>().into_iter().collect(),
            attached: false,
            trouble: None,
        };
        let mut status = DevicesStatus { devices: vec![device], ..DevicesStatus::default() };
        let named = |status: &DevicesStatus| -> Vec<String> {
            troubles(status).into_iter().map(|trouble| trouble.text).collect()
        };
        assert!(named(&status)[0].starts_with("device eth0 runs no programs yet"));
        status.failing = [("eth0".to_owned(), "attach: no memory".to_owned())].into();
        assert_eq!(named(&status).len(), 1);
        status.failing.clear();
        status.devices[0].attached = true;
        assert!(named(&status).is_empty());
    }
}
