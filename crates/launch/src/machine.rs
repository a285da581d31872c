//! Where a program ran: machine and container, for ledgers that are gathered from many.

use std::fs;
use std::path::Path;

use heapledger_format::session::process as key;

/// Digits of a container's id.
const CONTAINER_DIGITS: usize = 64;
/// Digits of a machine's hash that are kept.
const MACHINE_DIGITS: usize = 16;

/// What is known of it, as keys and values for the ledger. The machine's number is asked for by a person, or left out.
pub fn described(with_machine_id: bool) -> Vec<(&'static str, String)> {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let read = |path: &str| fs::read_to_string(path).ok();
    let machine = || hashed(read("/etc/machine-id")?.trim());
    let container = || {
        let lists = [read("/proc/self/cgroup"), read("/proc/self/mountinfo"), read("/run/.containerenv")];
        let id = lists.iter().flatten().find_map(|list| container_id(list));
        let named = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
        id.or_else(|| named.iter().find(|(path, _)| Path::new(path).exists()).map(|(_, name)| (*name).to_owned()))
    };
    let mut known = Vec::new();
    known.extend(host.filter(|host| !host.is_empty()).map(|host| (key::HOST, host)));
    known.extend(with_machine_id.then(machine).flatten().map(|id| (key::MACHINE_ID, id)));
    known.extend(container().map(|id| (key::CONTAINER, id)));
    known
}

/// A machine's number, so that it can be compared and not be told from it.
fn hashed(number: &str) -> Option<String> {
    if number.is_empty() {
        return None;
    }
    let hash = crate::sha256::sha256(format!("heapledger machine {number}").as_bytes());
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.get(..MACHINE_DIGITS).map(str::to_owned)
}

/// The id of a container in the name of a control group, of what is mounted at a file that engines mount, or in the file that
/// podman writes: 64 hexadecimal digits.
fn container_id(list: &str) -> Option<String> {
    let told = |line: &&str| {
        // In a list of mounts other names may have such digits: layers of images.
        let is_mount = line.contains(" - ");
        !is_mount || ["/hostname ", "/hosts ", "/resolv.conf "].iter().any(|name| line.contains(name))
    };
    let words = list.lines().filter(told).flat_map(|line| line.split(|letter: char| !letter.is_ascii_hexdigit()));
    words.filter(|word| word.len() == CONTAINER_DIGITS).map(str::to_owned).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_what_engines_leave() {
        let id = "0123456789abcdef".repeat(4);
        let other = "f".repeat(64);
        for list in [
            format!("12:memory:/docker/{id}\n"),
            format!("0::/system.slice/docker-{id}.scope\n"),
            format!("0::/kubepods/burstable/pod8f/cri-containerd-{id}.scope"),
            format!("0::/machine.slice/libpod-{id}.scope/container"),
            format!("engine=\"podman-4.3\"\nname=\"x\"\nid=\"{id}\"\n"),
            format!(
                "612 600 0:50 / / rw - overlay overlay rw,lowerdir=/l/{other}\n\
                 620 612 8:1 /var/lib/docker/containers/{id}/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n"
            ),
        ] {
            assert_eq!(container_id(&list).as_deref(), Some(id.as_str()), "{list}");
        }
        let layers = format!("612 600 0:50 / / rw - overlay overlay rw,lowerdir=/l/{other}\n");
        for list in ["0::/user.slice/user-0.slice/session-1.scope\n", "0::/\n", "", layers.as_str()] {
            assert_eq!(container_id(list), None, "{list}");
        }
    }

    #[test]
    fn a_machine_is_known_again_and_not_told() {
        let number = "8d2c1f9e5b7a4c3d9e0f1a2b3c4d5e6f";
        let hash = hashed(number).expect("a hash");
        assert_eq!((hash.len(), hashed(number)), (16, Some(hash.clone())));
        assert_ne!(hashed("8d2c1f9e5b7a4c3d9e0f1a2b3c4d5e60"), Some(hash.clone()));
        assert!(!number.contains(&hash));
        assert_eq!(hashed(""), None);
    }

    #[test]
    fn a_machine_is_told_only_if_asked_for() {
        let keys = |with| described(with).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert!(!keys(false).contains(&key::MACHINE_ID));
        assert!(keys(true).contains(&key::HOST));
    }
}
