//! A shop that serves requests, and does three things wrong with its memory: see `cargo xtask demo`.

use std::collections::HashMap;

struct Session {
    basket: Vec<u8>,
}

#[derive(Default)]
struct Shop {
    sessions: HashMap<u32, Session>,
}

impl Shop {
    /// A leak: nobody ever takes a session out.
    #[inline(never)]
    fn open_session(&mut self, user: u32) -> usize {
        let basket = vec![0; 512];
        self.sessions.insert(user, Session { basket });
        self.sessions[&user].basket.len()
    }

    /// A hot temporary: a text for each request, only to look at it.
    #[inline(never)]
    fn log_line(user: u32) -> bool {
        let line = format!("request of user {user}");
        line.ends_with("00")
    }

    /// A spike: all lines of the month at once.
    #[inline(never)]
    fn monthly_report(&self) -> usize {
        let lines: Vec<String> = (0..20_000).map(|_| "=".repeat(1000)).collect();
        lines.iter().map(String::len).sum()
    }
}

fn main() {
    let mut shop = Shop::default();
    let mut seen = 0;
    for user in 0..4_000 {
        seen += shop.open_session(user);
        seen += (0..25).filter(|_| Shop::log_line(user)).count();
        if user == 2_500 {
            seen += shop.monthly_report();
        }
    }
    println!("served {seen}");
    // As servers end: nothing is tidied up.
    std::process::exit(0);
}
