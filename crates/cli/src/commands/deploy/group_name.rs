//! Which group a function reads as: Vercel's rule, which its clients know as well.

use std::fmt::Write as _;

/// The group of a function by its key in `vercel.json` as it is written there, within a service `SERVICE~KEY`.
pub(super) fn group_name(key: &str) -> String {
    let mut name = String::with_capacity(key.len() * 2);
    for character in key.chars() {
        match character {
            '_' => name.push_str("__"),
            '/' => name.push_str("_S"),
            '.' => name.push_str("_D"),
            'A'..='Z' | 'a'..='z' | '0'..='9' | '-' => name.push(character),
            other => {
                // Vercel's clients take the first UTF-16 unit, so characters beyond U+FFFF lose their second.
                let mut units = [0; 2];
                let first = other.encode_utf16(&mut units).first().copied().unwrap_or_default();
                let _ = write!(name, "_{first:02X}");
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer is that of `filePathToConsumerGroup` in `@vercel/queue` 0.6.0.
    #[test]
    fn groups_are_named_as_vercels_clients_name_them() {
        for (key, group) in [
            ("app/api/queue/my-topic/route.ts", "app_Sapi_Squeue_Smy-topic_Sroute_Dts"),
            ("api/my func.js", "api_Smy_20func_Djs"),
            ("src/app/api/[id]/route.ts", "src_Sapp_Sapi_S_5Bid_5D_Sroute_Dts"),
            ("svc~api/x.ts", "svc_7Eapi_Sx_Dts"),
            ("api/my_func.ts", "api_Smy__func_Dts"),
            ("api/**/*.js", "api_S_2A_2A_S_2A_Djs"),
            ("api/{a,b}.ts", "api_S_7Ba_2Cb_7D_Dts"),
            ("api/tab\there.ts", "api_Stab_09here_Dts"),
            ("api/gr\u{fc}n.ts", "api_Sgr_FCn_Dts"),
            ("api/\u{30ad}\u{30e5}\u{30fc}.ts", "api_S_30AD_30E5_30FC_Dts"),
            ("api/\u{1f600}.ts", "api_S_D83D_Dts"),
            ("A-z_0.9", "A-z__0_D9"),
        ] {
            assert_eq!(group_name(key), group, "{key}");
        }
    }
}
