//! The options of an object store: of a source now, and of a destination later.

use std::sync::Arc;

use shoal_engine::option::group::STORES;
use shoal_engine::source::{Changing, ConnectionOptions};

shoal_engine::words! {
    /// How a request names a bucket.
    pub enum Addressing {
        /// In the name of the host at AWS, if it can stand there; in the path elsewhere.
        #[default]
        Auto = "auto",
        /// In the path.
        Path = "path",
        /// In the name of the host.
        Virtual = "virtual",
    }
}

shoal_engine::words! {
    /// What becomes of objects that must be restored before they can be read.
    pub enum Archived {
        /// Each is a failure, unless it was restored.
        #[default]
        Fail = "fail",
        /// They are left out.
        Skip = "skip",
    }
}

shoal_engine::options! {
    /// How an object store is used.
    pub struct S3Options {
        /// The URL of the store, such as `"http://127.0.0.1:9000"`. By default that of the environment or the profile, else AWS.
        endpoint: Option<String> = None, "URL of the store, if it is not AWS.", metavar: Some("URL"), group: STORES;
        /// The region in which the bucket is. By default, AWS is asked for it; for other stores, the environment or the profile
        /// says it, or it is `"us-east-1"`.
        region: Option<String> = None, "Region of the bucket.", metavar: Some("NAME"), group: STORES;
        /// The profile of the AWS configuration files that has the credentials and settings.
        profile: Option<String> = None, "Profile of the AWS configuration.", metavar: Some("NAME"), group: STORES;
        /// Send no credentials: for public buckets.
        anonymous: bool = false, "Send no credentials, for public buckets.", group: STORES;
        /// Agree to pay for the requests and the transfer, which the owner of the bucket may demand.
        requester_pays: bool = false, "Agree to pay for the requests and the transfer.", group: STORES;
        /// How requests name the bucket: in the `"path"`, or in the name of the host (`"virtual"`). `"auto"`
        /// is virtual at AWS if the name has no dots, and path elsewhere.
        addressing: Addressing = Addressing::Auto, "How requests name the bucket.",
            metavar: Some("auto|path|virtual"), group: STORES;
        /// What to do about objects in an archive (GLACIER, DEEP_ARCHIVE) that are not restored. `"fail"`: each is a failure
        /// `archived`. `"skip"`: they are left out, and the report counts them.
        archived: Archived = Archived::Fail, "Objects in GLACIER, not restored.",
            metavar: Some("fail|skip"), binds: true, group: STORES;
    }
    with { connection: ConnectionOptions }
    and {
        /// Keys that sign requests, under the names in `sign.rs`; `None`: requests are not signed.
        credentials: Option<Arc<Changing>> = None;
        /// The region of the user's configuration.
        usual_region: Option<String> = None;
    }
}
