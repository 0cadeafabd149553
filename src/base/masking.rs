//! Masks values that look like secrets, before they are stored, logged or shown: by the key they stand under, and by
//! their own form wherever they stand. It guesses, and in doubt hides too much: the program itself still gets the value.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex, RegexSet};
use serde_json::{Map, Value};

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// Words that make a key that of a secret.
const WORDS: [&str; 16] = [
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "apikey",
    "apikeys",
    "accesskey",
    "privatekey",
    "authtoken",
    "authorization",
];
/// Ends of words written without a gap: `PGPASSWORD`.
const ENDINGS: [&str; 3] = ["password", "passwd", "apikey"];
/// A word before `key` that makes it one to a lock; `key` alone is any dictionary's.
const KEYS: [&str; 11] = [
    "api",
    "access",
    "private",
    "secret",
    "account",
    "auth",
    "encryption",
    "master",
    "session",
    "shared",
    "signing",
];
/// Masking may show what else is to be masked; text that takes longer than this is hidden as a whole.
const ROUNDS: usize = 8;

/// What a key says of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Secret,
    /// A token: of an API, or of a language model's vocabulary.
    Token,
}

/// Masks a document: values under keys of secrets, and what looks like a secret elsewhere. Numbers and truth values stay:
/// `max_tokens` is none.
pub fn mask_document(document: &mut Map<String, Value>) {
    for (key, value) in document {
        match kind_of(key) {
            Some(kind) => mask_below(value, kind),
            None => mask_value(value),
        }
    }
}

/// Masks a program's arguments: `--api-key VALUE`, `--password=VALUE`, `KEY=VALUE`, and what looks like a secret.
#[must_use]
pub fn mask_arguments(arguments: &[String]) -> Vec<String> {
    let mut masker = Arguments::default();
    arguments.iter().map(|argument| masker.mask(argument).into_owned()).collect()
}

/// Masks what looks like a secret in free text.
#[must_use]
pub fn mask_text(text: &str) -> Cow<'_, str> {
    if is_word(text) {
        return Cow::Borrowed(text);
    }
    let mut masked = Cow::Borrowed(text);
    for _ in 0..ROUNDS {
        match mask_once(&masked) {
            Some(next) => masked = Cow::Owned(next),
            None => return masked,
        }
    }
    // Masking twice is the same as once: of this, too.
    Cow::Owned(MASK.into())
}

/// Whether a text is so plain and short that nothing can be found in it: most are, and this costs a hundredth of a look.
fn is_word(text: &str) -> bool {
    // The shortest form of letters and digits alone has twenty; all others, and pairs, have some other sign.
    text.len() < 20 && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// All strings below the key of a secret.
fn mask_below(value: &mut Value, kind: Kind) {
    match value {
        Value::String(text) => {
            if !is_harmless(text, kind) {
                MASK.clone_into(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask_below(item, kind)),
        Value::Object(fields) => fields.values_mut().for_each(|field| mask_below(field, kind)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn mask_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = mask_text(text) {
                *text = masked;
            }
        }
        Value::Array(items) => {
            // Any list of strings may be a command line.
            let mut masker = Arguments::default();
            for item in items {
                match item {
                    Value::String(text) => {
                        if let Cow::Owned(masked) = masker.mask(text) {
                            *text = masked;
                        }
                    }
                    other => {
                        masker = Arguments::default();
                        mask_value(other);
                    }
                }
            }
        }
        Value::Object(fields) => mask_document(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Arguments in their order: a flag says what the next one is.
#[derive(Debug, Default)]
struct Arguments {
    next_is: Option<Kind>,
}

impl Arguments {
    fn mask<'a>(&mut self, argument: &'a str) -> Cow<'a, str> {
        let expected = self.next_is.take();
        // After a flag that takes no value comes another flag.
        if let Some(kind) = expected
            && !argument.starts_with("--")
        {
            return if is_harmless(argument, kind) {
                Cow::Borrowed(argument)
            } else {
                Cow::Owned(MASK.into())
            };
        }
        if argument.starts_with('-') && is_key(argument) {
            self.next_is = kind_of(argument);
            return Cow::Borrowed(argument);
        }
        // `--env=NAME=VALUE` has its key behind the first sign.
        let mut begin = 0;
        for (equals, _) in argument.match_indices('=') {
            let (key, value) = (&argument[begin..equals], &argument[equals + 1..]);
            if !is_key(key) {
                break;
            }
            if kind_of(key).is_some_and(|kind| !is_harmless(value, kind)) {
                return Cow::Owned(format!("{}={MASK}", &argument[..equals]));
            }
            begin = equals + 1;
        }
        mask_text(argument)
    }
}

/// Whether this is written like the name of a flag, a variable or a setting.
fn is_key(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+~".contains(&b))
}

/// Whether a value under a secret's key is none all the same: `pad_token: "<pad>"`, `max_token=512`.
fn is_harmless(value: &str, kind: Kind) -> bool {
    let value = value.trim_matches(['"', '\'']);
    let enclosed = |open, close| value.starts_with(open) && value.ends_with(close);
    kind == Kind::Token && (enclosed('<', '>') || enclosed('[', ']') || value.parse::<f64>().is_ok())
}

/// What the words of a key say.
fn kind_of(key: &str) -> Option<Kind> {
    if key.is_ascii() && !PARTS.is_match(key) {
        return None;
    }
    let words = words(key);
    let word = |w: &String| WORDS.contains(&w.as_str()) || ENDINGS.iter().any(|end| w.ends_with(end));
    let lock = |pair: &[String]| KEYS.contains(&pair[0].as_str()) && (pair[1] == "key" || pair[1] == "keys");
    if words.iter().any(word) || words.windows(2).any(lock) {
        Some(Kind::Secret)
    } else {
        words.iter().any(|w| w == "token").then_some(Kind::Token)
    }
}

/// The words of a key in lower case: between other signs, at the humps of camelCase and at digits.
fn words(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before: Option<char> = None;
    let mut chars = key.chars().peekable();
    while let Some(c) = chars.next() {
        let next_is_lower = chars.peek().is_some_and(|next| next.is_lowercase());
        let hump = before.is_some_and(|b| {
            (c.is_uppercase() && (b.is_lowercase() || (b.is_uppercase() && next_is_lower)))
                || b.is_numeric() != c.is_numeric()
        });
        if hump || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Text with what was found masked; none if nothing was.
fn mask_once(text: &str) -> Option<String> {
    if !ANY.is_match(text) {
        return None;
    }
    let mut masked = Cow::Borrowed(text);
    for (form, replacement) in FORMS.iter() {
        if let Cow::Owned(next) = form.replace_all(&masked, *replacement) {
            masked = Cow::Owned(next);
        }
    }
    for pair in PAIRS.iter() {
        if let Cow::Owned(next) = pair.replace_all(&masked, mask_pair) {
            masked = Cow::Owned(next);
        }
    }
    (masked != text).then(|| masked.into_owned())
}

/// A pair of key and value; the quotes around the value stay.
fn mask_pair(pair: &Captures<'_>) -> String {
    let part = |name: &str| pair.name(name).map_or("", |m| m.as_str());
    let value = part("value");
    if kind_of(part("key")).is_none_or(|kind| is_harmless(value, kind)) {
        return part("before").to_owned() + value;
    }
    let quoted = |quote: &char| value.starts_with(*quote);
    let open = ['"', '\''].into_iter().find(quoted);
    let close = open.filter(|quote| value.len() > 1 && value.ends_with(*quote));
    let text = |quote: Option<char>| quote.map(String::from).unwrap_or_default();
    format!("{}{}{MASK}{}", part("before"), text(open), text(close))
}

/// Secrets that are known by their form, with what is left of them.
static FORMS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        // Also one that was cut off.
        (
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
            "***",
        ),
        // Up to the last @ of the host's part: a password may hold one.
        (r#"([A-Za-z][A-Za-z0-9+.-]*://[^ \t\r\n/?#:@"<>]*:)[^ \t\r\n/?#"<>]+@"#, "${1}***@"),
        (
            r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]*[A-Za-z0-9]{16,}[A-Za-z0-9_-]*|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|xox[a-z]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|whsec_[A-Za-z0-9+/=]{16,}|eyJ[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*)",
            "***",
        ),
        (
            r#"([Aa]uthorization["']?[:=] *["']?(?:[Bb]asic +|[Bb]earer +|[Dd]igest +|[Tt]oken +)?)[^ \t\r\n"',]+"#,
            "${1}***",
        ),
        (r"(?-u:\b)(Bearer +)[A-Za-z0-9._~+/=-]+", "${1}***"),
    ]
    .map(|(pattern, replacement)| (compile(pattern), replacement))
    .into()
});

/// Pairs of key and value in text: `KEY=VALUE`, `--key VALUE`, `"key": "VALUE"`.
static PAIRS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        compile(r#"(?<before>(?<key>[A-Za-z0-9_.+~-]+)=)(?<value>"[^"]*"|'[^']*'|["']?[^ \t\r\n&;"']+)"#),
        compile(
            r#"(?<before>(?:^|[ \t\r\n"'=(])(?<key>--?[A-Za-z][A-Za-z0-9_.-]*) +)(?<value>"[^"]*"|'[^']*'|["']?[^ \t\r\n"'-][^ \t\r\n"']*)"#,
        ),
        compile(
            r#"(?<before>["'](?<key>[A-Za-z0-9_. -]+)["'] *: *)(?<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"#,
        ),
    ]
});

/// Whether one of all these is in a text: one look in place of eight, and most texts have none.
#[expect(clippy::expect_used, reason = "each of them was compiled on its own")]
static ANY: LazyLock<RegexSet> = LazyLock::new(|| {
    let all = FORMS.iter().map(|(form, _)| form).chain(&*PAIRS);
    RegexSet::new(all.map(Regex::as_str)).expect("patterns of this file")
});

/// Each key of a secret has one of these in it, so that most keys need not be taken apart.
static PARTS: LazyLock<Regex> =
    LazyLock::new(|| compile("(?i-u)pass|pwd|secret|credential|key|token|authorization"));

#[expect(clippy::expect_used, reason = "the patterns are fixed, and the tests compile them")]
fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn masked(document: Value) -> Value {
        let Value::Object(mut map) = document else { panic!("a document is an object") };
        mask_document(&mut map);
        Value::Object(map)
    }

    fn arguments(line: &[&str]) -> Vec<String> {
        mask_arguments(&line.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_key_is_that_of_a_secret_by_its_words() {
        for key in [
            "password",
            "DB_PASSWORD",
            "PGPASSWORD",
            "dbPasswd",
            "MYSQL_PWD",
            "ssh.passphrase",
            "client_secret",
            "secrets",
            "apikey",
            "apiKey",
            "APIKey",
            "OPENAI_API_KEY",
            "--api-key",
            "aws_access_key_id",
            "privateKey",
            "secret-key",
            "AccountKey",
            "credentials",
            "Authorization",
            "password2",
        ] {
            assert_eq!(kind_of(key), Some(Kind::Secret), "{key}");
        }
        for key in ["token", "HF_TOKEN", "authToken", "auth_token", "githubToken", "pad_token"] {
            assert_eq!(kind_of(key), Some(Kind::Token), "{key}");
        }
        for key in [
            "",
            "key",
            "monkey",
            "primary_key",
            "tokenizer",
            "max_tokens",
            "tokens",
            "keyword",
            "pass",
            "passes",
            "author",
            "compass_word",
            "secretary",
            "lr",
            "api",
            "api_version",
            "keys",
        ] {
            assert_eq!(kind_of(key), None, "{key}");
        }
    }

    #[test]
    fn a_document_loses_its_secrets_and_nothing_else() {
        let before = json!({
            "lr": 0.1, "max_tokens": 512, "tokenizer": "gpt2", "use_auth_token": true, "password": null,
            "pad_token": "<pad>", "eos_token": "<|endoftext|>", "mask_token": "[MASK]", "token_count": 7,
            "name": "a sentence about nothing", "layers": ["a", "b"], "url": "https://host:8080/a@b",
        });
        assert_eq!(masked(before.clone()), before);
        let secret = json!({
            "password": "p", "hf": {"token": "t", "apiKey": "k", "repo": "r"},
            "secrets": {"a": ["x", 1], "b": {"c": "y"}},
            "store": "postgres://me:p@ss@db/runs", "command": ["train.py", "--password", "p", "--lr", "0.1"],
            "mixed": ["--token", "t", 3, "HF_TOKEN=x"],
        });
        let expected = json!({
            "password": "***", "hf": {"token": "***", "apiKey": "***", "repo": "r"},
            "secrets": {"a": ["***", 1], "b": {"c": "***"}},
            "store": "postgres://me:***@db/runs", "command": ["train.py", "--password", "***", "--lr", "0.1"],
            "mixed": ["--token", "***", 3, "HF_TOKEN=***"],
        });
        assert_eq!(masked(secret), expected);
    }

    #[test]
    fn arguments_lose_the_values_of_secrets() {
        for (line, expected) in [
            (&["--api-key", "sk-y", "--lr", "0.1"][..], &["--api-key", "***", "--lr", "0.1"][..]),
            (&["--hf_token=hf_x"], &["--hf_token=***"]),
            (&["--password", "-x", "y"], &["--password", "***", "y"]),
            (&["--use-token", "--lr", "0.1"], &["--use-token", "--lr", "0.1"]),
            (&["-e", "HF_TOKEN=x", "-e", "LR=1"], &["-e", "HF_TOKEN=***", "-e", "LR=1"]),
            (&["--env=HF_TOKEN=a b"], &["--env=HF_TOKEN=***"]),
            (&["+model.api_key=a=b"], &["+model.api_key=***"]),
            (&["--max_tokens", "512", "--max-token", "512"], &["--max_tokens", "512", "--max-token", "512"]),
            (&["--pad_token", "<pad>", "--pad_token=[PAD]"], &["--pad_token", "<pad>", "--pad_token=[PAD]"]),
            (&["--pad_token", "pad"], &["--pad_token", "***"]),
            (&["--db", "mysql://u:p@h/d?x=1"], &["--db", "mysql://u:***@h/d?x=1"]),
            (&["sh", "-c", "train --token abc --lr 1"], &["sh", "-c", "train --token *** --lr 1"]),
            (&["--tokenizer", "gpt2", "token"], &["--tokenizer", "gpt2", "token"]),
        ] {
            assert_eq!(arguments(line), expected);
        }
    }

    #[test]
    fn text_loses_what_has_the_form_of_a_secret() {
        let long = "A1b2C3d4E5f6G7h8I9j0K1l2";
        for (text, expected) in [
            ("redis://:pw@host:6379/0", "redis://:***@host:6379/0"),
            ("a://u:p@h,b://v:q@i", "a://u:***@h,b://v:***@i"),
            ("https://example.com:443/x@y and a@b.c", "https://example.com:443/x@y and a@b.c"),
            (&format!("push ghp_{long}."), "push ***."),
            (&format!("gho_{long} github_pat_{long}_{long}"), "*** ***"),
            (&format!("glpat-{long}, hf_{long}"), "***, ***"),
            (&format!("sk-proj-{long}-x sk-ant-api03-{long}"), "*** ***"),
            (
                "sk-learn-random-forest task-oriented hf_hub_download",
                "sk-learn-random-forest task-oriented hf_hub_download",
            ),
            ("xoxb-123456789-abc AKIAIOSFODNN7EXAMPLE", "*** ***"),
            ("Authorization: Basic dTpw", "Authorization: Basic ***"),
            ("curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: Bearer ***'"),
            ("the bearer of news", "the bearer of news"),
            ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln!", "got ***!"),
            ("x -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- y", "x *** y"),
            ("-----BEGIN PRIVATE KEY-----\nMII", "***"),
            ("GET /x?api_key=abc&page=2", "GET /x?api_key=***&page=2"),
            ("Server=db;Password=\"a b\";Port=1", "Server=db;Password=\"***\";Port=1"),
            (r#"{"password": "a\"b", "n": "v"}"#, r#"{"password": "***", "n": "v"}"#),
            ("{'api_key': 'x', 'eos_token': '</s>'}", "{'api_key': '***', 'eos_token': '</s>'}"),
            ("token=5 pad_token=<pad> steps=3", "token=5 pad_token=<pad> steps=3"),
            ("", ""),
        ] {
            assert_eq!(mask_text(text), expected);
        }
        assert!(matches!(mask_text("nothing to hide"), Cow::Borrowed(_)));
    }

    /// Text in which the parts of secrets meet in any order.
    fn text() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "https://",
            "user",
            ":",
            "@",
            "host",
            "/",
            "=",
            "***",
            "*",
            "password",
            "token",
            "--",
            "-",
            " ",
            "\"",
            "'",
            "api",
            "Key",
            "_",
            "ghp_",
            "0123456789abcdefABCDEF",
            "Bearer ",
            "Authorization: ",
            "Basic ",
            "eyJab",
            ".ab",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "\n",
            "<pad>",
            "[",
            "]",
            "&",
            ";",
            ",",
            "sk-",
            "{",
            "}",
            "\\",
            "7",
            "é",
        ]);
        prop_oneof![prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat()), any::<String>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_500))]

        #[test]
        fn masking_twice_is_masking_once(text in text(), more in prop::collection::vec(text(), 0..5)) {
            let once = mask_text(&text).into_owned();
            prop_assert_eq!(&mask_text(&once), &once);
            let once = mask_arguments(&more);
            prop_assert_eq!(mask_arguments(&once), once.clone());
            let once = masked(json!({ text.as_str(): more, "of": {"any": text}, "list": [1, text, [text]] }));
            prop_assert_eq!(masked(once.clone()), once);
        }

        #[test]
        fn a_secret_under_its_key_is_never_shown(secret in "[a-z]{12}", other in text()) {
            let document = masked(json!({"a": {"db_password": secret, "x": other}, "command": ["--api-key", secret]}));
            prop_assert!(!document.to_string().contains(&secret) || other.contains(&secret));
        }
    }
}
