//! A bucket at its address: what is requested of it, by which client, and in which region AWS has it. Not here: what the
//! answers mean (`answer.rs`).

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use shoal_engine::display::escape;
use shoal_engine::{Error, Kind, Result};
use shoal_http::{Address, Client, Fields, IdleConnections, Method, Request, Wants, encode_name, request_fields, send};

use crate::answer;
use crate::options::{Addressing, S3Options};
use crate::pager::Ask;
use crate::sign::Signer;
use crate::store::Store;

/// Where a bucket is that nothing is known of.
const REGION: &str = "us-east-1";
/// The hosts of AWS end so.
const AWS: [&str; 2] = [".amazonaws.com", ".amazonaws.com.cn"];
/// The header in which AWS says where a bucket is.
pub(crate) const BUCKET_REGION: &str = "x-amz-bucket-region";
/// So many letters of a secret tell it.
const SECRET_PART: usize = 12;
/// The owner of the bucket wants this.
const PAYS: (&str, &str) = ("x-amz-request-payer", "requester");
/// Asks for whether archived objects are restored.
const RESTORED: &[u8] = b"x-amz-optional-object-attributes: RestoreStatus\r\n";

/// Where a store is.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// `None`: AWS.
    address: Option<Address>,
    is_virtual: bool,
}

impl Endpoint {
    pub fn new(bucket: &str, options: &S3Options) -> Result<Endpoint> {
        let endpoint = options.endpoint.as_deref();
        let wrong = |error: Error| {
            let why = format!("`endpoint` is not the URL of a store: {}", error.why());
            Error::new(Kind::Config, why).hint("as in `endpoint=\"http://127.0.0.1:9000\"`")
        };
        let address = endpoint.map(Address::parse).transpose().map_err(wrong)?;
        if address.as_ref().is_some_and(|address| address.authorization.is_some()) {
            let why = "the endpoint of a store has no user and password";
            return Err(Error::new(Kind::Config, why).hint("give keys in the environment, or with `credentials`"));
        }
        let is_aws = address.as_ref().is_none_or(|address| is_aws(&address.host));
        let is_virtual = match options.addressing {
            Addressing::Path => false,
            Addressing::Virtual => true,
            // Certificates are for one label before the store's own name.
            Addressing::Auto => is_aws && !bucket.contains(['.', '_']) && bucket == bucket.to_ascii_lowercase(),
        };
        // AWS has one address for each region; which one, the region of the bucket says.
        let is_usual = address.as_ref().is_some_and(|address| {
            let host = &*address.host;
            AWS.iter().any(|domain| host.strip_suffix(domain).is_some_and(|rest| rest == "s3" || is_regional(rest)))
        });
        Ok(Endpoint { address: address.filter(|_| !is_usual), is_virtual })
    }

    /// A store that is not AWS is a part of what a source is.
    pub fn identity(&self) -> Option<String> {
        self.address.as_ref().map(Address::shown)
    }

    /// The address of a bucket, and what its paths begin with.
    fn of(&self, bucket: &str, region: &str) -> (Address, String) {
        let domain = if region.starts_with("cn-") { AWS[1] } else { AWS[0] };
        let aws = || Address::new(true, format!("s3.{region}{domain}"), None);
        let mut address = self.address.clone().unwrap_or_else(aws);
        match self.is_virtual {
            true => address.host = format!("{bucket}.{}", address.host),
            false => write!(address.base, "/{bucket}").unwrap_or_default(),
        }
        let base = std::mem::take(&mut address.base);
        (address, base)
    }
}

fn is_aws(host: &str) -> bool {
    AWS.iter().any(|domain| host.ends_with(domain))
}

/// `s3.eu-west-1`.
fn is_regional(rest: &str) -> bool {
    let region = rest.strip_prefix("s3.").unwrap_or_default();
    region.contains('-') && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A bucket at its address.
pub(crate) struct Service {
    pub store: Arc<Store>,
    pub client: Client,
    pub signer: Option<Arc<Signer>>,
    /// What paths begin with: the name of the bucket, or nothing.
    base: String,
}

impl Service {
    /// Finds the region of the bucket, and so its address.
    pub async fn find(store: &Arc<Store>) -> Result<Arc<Service>> {
        let options = &store.options;
        let usual = options.region.as_deref().or(options.usual_region.as_deref()).unwrap_or(REGION);
        let located = match (&options.region, &store.endpoint.address) {
            (None, None) => locate(store, usual).await?,
            _ => None,
        };
        let region = located.as_deref().unwrap_or(usual);
        let (address, base) = store.endpoint.of(&store.bucket, region);
        let pays = options.requester_pays.then(|| (PAYS.0.to_owned(), PAYS.1.to_owned()));
        let lines = request_fields(&address, pays.as_slice())?;
        let credentials = options.credentials.as_ref();
        let fields = match credentials {
            Some(credentials) => Fields::signed(credentials.clone(), lines),
            None => lines.into(),
        };
        let mut client = store.reach.client(address, fields)?;
        let signer = credentials.map(|credentials| Arc::new(Signer::new(credentials.clone(), region.to_owned())));
        client.signer = signer.clone().map(|signer| signer as _);
        Ok(Arc::new(Service { store: store.clone(), client, signer, base }))
    }

    /// Appends the target of an object.
    pub fn target(&self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.base.as_bytes());
        out.push(b'/');
        encode_name(out, key, false);
    }

    /// The target of a page of the listing.
    pub fn list_target(&self, ask: &Ask) -> Vec<u8> {
        let mut target = self.base.clone().into_bytes();
        if target.is_empty() {
            target.push(b'/');
        }
        let parameters: [(&str, Option<&[u8]>); 6] = [
            ("continuation-token", ask.token.as_deref().map(str::as_bytes)),
            ("encoding-type", Some(b"url")),
            ("list-type", Some(b"2")),
            ("max-keys", ask.is_for_one.then_some(b"1")),
            ("prefix", Some(&*ask.prefix).filter(|prefix| !prefix.is_empty())),
            ("start-after", ask.behind.as_deref()),
        ];
        let mut separator = b'?';
        for (name, value) in parameters {
            let Some(value) = value else { continue };
            target.push(separator);
            target.extend_from_slice(name.as_bytes());
            target.push(b'=');
            encode_name(&mut target, value, true);
            separator = b'&';
        }
        target
    }

    /// Header lines of a request for a page.
    pub fn list_fields(&self) -> &'static [u8] {
        if self.store.skips_archived() { RESTORED } else { b"" }
    }

    /// Whether a text of the store has a key, or the longest part of one that looks the same in every encoding.
    pub fn has_secret(&self, text: &str) -> bool {
        let longest = |secret: &str| {
            let parts = secret.split(|one: char| !one.is_ascii_alphanumeric());
            parts.max_by_key(|part| part.len()).unwrap_or_default().to_owned()
        };
        let has = |secret: &str| {
            let part = longest(secret);
            !secret.is_empty()
                && (text.contains(secret) || part.len() >= SECRET_PART && text.contains(&part[..SECRET_PART]))
        };
        let keys = self.store.options.credentials.as_ref().map(|credentials| credentials.present());
        keys.is_some_and(|keys| keys.iter().any(|(_, value)| has(value)))
    }
}

/// Asks AWS where a bucket is. It answers so also what it refuses, and before it looks at a signature.
async fn locate(store: &Arc<Store>, usual: &str) -> Result<Option<String>> {
    let (address, base) = store.endpoint.of(&store.bucket, usual);
    let target = format!("{base}/?list-type=2&max-keys=0");
    let client = store.reach.client(address.clone(), request_fields(&address, &[])?.into())?;
    let clock: fn() -> Duration = || Duration::ZERO;
    let mut connections: IdleConnections<_, ()> = IdleConnections::new(Arc::default(), Wants::fields(&[BUCKET_REGION]));
    let request = Request::new(Method::Get, target.as_bytes());
    let (mut open, mut head) = send(&client, &mut connections, clock, &request, || ()).await?;
    let said = head.field(BUCKET_REGION).map(|region| String::from_utf8_lossy(region).into_owned());
    if let Some(region) = said {
        return Ok(Some(region).filter(|region| answer::is_region(region)));
    }
    let body = open.error_body(&mut head).await;
    let said = answer::Said::of(&body);
    match head.status {
        404 => Err(answer::no_bucket(&store.bucket).on(&store.shown())),
        408 | 429 | 500..=599 => {
            let why = format!("the store answered {} when it was asked where the bucket is", head.status);
            Err(Error::new(Kind::ServerError, why).on(&escape(address.shown().as_bytes())))
        }
        _ => Ok(said.region.filter(|region| answer::is_region(region))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_in_the_host_at_aws_and_in_the_path_elsewhere() {
        let place = |bucket: &str, endpoint: Option<&str>, addressing, region: &str| {
            let endpoint = endpoint.map(str::to_owned);
            let endpoint = Endpoint::new(bucket, &S3Options { endpoint, addressing, ..S3Options::default() }).unwrap();
            let (address, base) = endpoint.of(bucket, region);
            format!("{}{base}", address.shown())
        };
        let (auto, path) = (Addressing::Auto, Addressing::Path);
        for (made, wanted) in [
            (place("b", None, auto, "eu-west-1"), "https://b.s3.eu-west-1.amazonaws.com"),
            (place("b.c", None, auto, "eu-west-1"), "https://s3.eu-west-1.amazonaws.com/b.c"),
            (place("b", None, path, "cn-north-1"), "https://s3.cn-north-1.amazonaws.com.cn/b"),
            (place("b", Some("http://h:9/x"), auto, "r"), "http://h:9/x/b"),
            (place("b", Some("http://h:9"), Addressing::Virtual, "r"), "http://b.h:9"),
            (place("b", Some("https://s3.us-east-1.amazonaws.com"), auto, "eu-1"), "https://b.s3.eu-1.amazonaws.com"),
            (
                place("b", Some("https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com"), path, "r"),
                "https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com/b",
            ),
        ] {
            assert_eq!(made, wanted);
        }
        let with_user = S3Options { endpoint: Some("http://u:p@h".into()), ..S3Options::default() };
        assert!(!Endpoint::new("b", &with_user).unwrap_err().to_string().contains("u:p"));
    }
}
