//! Sizes as a person types them.

const UNITS: &[(&str, u32)] = &[("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// Bytes from `4096`, `512M`, `4GiB`, `1.5g`: units are powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let problem = || format!("'{text}' is not a size such as 512M or 4G");
    let upper = text.trim().to_ascii_uppercase();
    let digits = upper.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = upper.get(digits.len()..).unwrap_or_default();
    let shift = match unit.trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        short => UNITS.iter().find(|(name, _)| *name == short).ok_or_else(problem)?.1,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let whole: u64 = whole.parse().ok().filter(|_| plain(whole) && plain(fraction)).ok_or_else(problem)?;
    let mut bytes = whole.checked_mul(1 << shift).ok_or_else(problem)?;
    if !fraction.is_empty() {
        let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 6).ok_or_else(problem)?;
        let part: u64 = fraction.parse().map_err(|_| problem())?;
        bytes = bytes.checked_add(part.saturating_mul(1 << shift) / 10_u64.pow(places)).ok_or_else(problem)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("1k", 1024), ("512M", 512 << 20), ("4GiB", 4 << 30), ("1.5KB", 1536)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1X", "1e3", "99999999999999T", "1.2.3", "1.1234567M", "4 0", "+4", "+4K", "1.+5M"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
