//! Engines that run what is written in other languages: of their own code a ledger has functions, of what they run only
//! if they tell.

/// An engine among the modules of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// CPython.
    Python {
        /// The second number of its version as far as its file tells: 12 of 3.12.
        minor: Option<u32>,
        /// Whether it has pools of its own for small objects, as it does unless `PYTHONMALLOC` tells it otherwise.
        has_pools: bool,
        /// Whether stacks have lines of it.
        has_lines: bool,
    },
    /// node, or its library.
    Node,
    /// HotSpot, which runs Java.
    Java,
}

impl Engine {
    /// The same, of a program with this value of `PYTHONMALLOC`, whose stacks have lines of it or not.
    #[must_use]
    pub fn told(self, pythonmalloc: Option<&str>, has_lines: bool) -> Engine {
        let calls_malloc = pythonmalloc.is_some_and(|told| ["malloc", "malloc_debug"].contains(&told));
        match self {
            Engine::Python { minor, .. } => Engine::Python { minor, has_pools: !calls_malloc, has_lines },
            other => other,
        }
    }

    /// The one whose code lies in the module of this path.
    pub fn of(path: &str) -> Option<Engine> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let library = name.strip_prefix("lib").filter(|rest| rest.contains(".so"));
        let python = library.or(Some(name)).and_then(|name| name.strip_prefix("python"));
        if let Some(version) = python.filter(|version| version.is_empty() || version.starts_with(['2', '3'])) {
            let second = version.strip_prefix("3.").and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
            let second = second.and_then(|number| number.parse().ok());
            return (!version.starts_with('2')).then_some(Engine::Python {
                minor: second,
                has_pools: true,
                has_lines: false,
            });
        }
        match (name, library) {
            ("node" | "nodejs", _) => Some(Engine::Node),
            (_, Some(library)) if library.starts_with("node.so") => Some(Engine::Node),
            ("libjvm.so", _) => Some(Engine::Java),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_known_by_their_files() {
        for (path, engine) in [
            ("/usr/bin/python3.11", Some(Engine::Python { minor: Some(11), has_pools: true, has_lines: false })),
            ("/opt/v/bin/python3.13", Some(Engine::Python { minor: Some(13), has_pools: true, has_lines: false })),
            ("/usr/bin/python3", Some(Engine::Python { minor: None, has_pools: true, has_lines: false })),
            ("/usr/bin/python", Some(Engine::Python { minor: None, has_pools: true, has_lines: false })),
            (
                "/usr/lib/x/libpython3.12.so.1.0",
                Some(Engine::Python { minor: Some(12), has_pools: true, has_lines: false }),
            ),
            ("/usr/bin/python2.7", None),
            ("/usr/bin/pythonish", None),
            ("/usr/bin/node", Some(Engine::Node)),
            ("/usr/lib/x/libnode.so.108", Some(Engine::Node)),
            ("/usr/lib/jvm/x/lib/server/libjvm.so", Some(Engine::Java)),
            ("/usr/bin/perl", None),
            ("/usr/bin/nodeadm", None),
            ("/usr/lib/libnodes.so", None),
            ("", None),
        ] {
            assert_eq!(Engine::of(path), engine, "{path}");
        }
    }
}
