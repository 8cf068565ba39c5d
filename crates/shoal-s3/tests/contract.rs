//! The contract suite of sources, on a bucket of the synthetic store of the lab, which checks signatures.

use std::sync::Arc;
use std::time::Duration;

use shoal_engine::source::{Changing, Source};
use shoal_engine::testing::source_contract;
use shoal_limits::{Keys, S3Store, s3_store};
use shoal_s3::{ACCESS_KEY, S3, S3Options, SECRET_KEY};

/// More than two places at which a listing can continue.
const OBJECTS: u64 = 20_250;
const SIZE: usize = 20;

#[test]
fn a_bucket_keeps_the_contract_of_a_source() {
    let keys = Keys { access: "test".into(), secret: "secret".into() };
    let bucket = "b".to_owned();
    let store = S3Store {
        objects: OBJECTS,
        size: SIZE,
        page: 777,
        latency: Duration::ZERO,
        keys: Some(keys),
        port: 0,
        bucket: bucket.clone(),
        threads: 1,
    };
    let address = s3_store(&store).unwrap();
    let credentials = Arc::new(Changing::default());
    credentials.give(vec![(ACCESS_KEY.into(), "test".into()), (SECRET_KEY.into(), "secret".into())], None);
    let options = S3Options {
        endpoint: Some(format!("http://{address}")),
        credentials: Some(credentials),
        ..S3Options::default()
    };
    let source: Arc<dyn Source> = Arc::new(S3::new(&format!("s3://{bucket}"), options).unwrap());
    let object = |number: u64| {
        let name = format!("d{:06}/{number:012}.bin", number / 1000).into_bytes();
        (name, number.to_le_bytes().into_iter().cycle().take(SIZE).collect())
    };
    source_contract::run(&source, &(0..OBJECTS).map(object).collect());
}
