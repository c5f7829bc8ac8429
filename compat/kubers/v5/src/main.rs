//! Keeps the configmaps of a namespace by a watcher that begins with a streaming list,
//! and says what it sees: see harness.Foreign. Arguments: a kubeconfig and the namespace.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Config, ResourceExt};
use tokio::io::{AsyncBufReadExt, BufReader};
use tower::util::MapRequestLayer;

type Store = Arc<Mutex<HashMap<String, String>>>;

fn key(o: &ConfigMap) -> String {
    format!("{}/{}", o.namespace().unwrap_or_default(), o.name_any())
}

fn put(store: &Store, namespace: &str, o: &ConfigMap) {
    let (key, rv) = (key(o), o.resource_version().unwrap_or_default());
    match store.lock().unwrap().insert(key.clone(), rv.clone()) {
        None => println!("ADDED {namespace} {key} {rv}"),
        Some(was) if was != rv => println!("UPDATED {namespace} {key} {was} {rv}"),
        Some(_) => {}
    }
}

fn drop_key(store: &Store, namespace: &str, key: &str, rv: Option<String>) {
    if let Some(was) = store.lock().unwrap().remove(key) {
        println!("DELETED {namespace} {key} {}", rv.unwrap_or(was));
    }
}

async fn follow(api: Api<ConfigMap>, store: Store, namespace: String) {
    let events = watcher(api, watcher::Config::default().streaming_lists()).default_backoff();
    let mut events = Box::pin(events);
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(o)) => {
                listed.insert(key(&o));
                put(&store, &namespace, &o);
            }
            Ok(watcher::Event::InitDone) => {
                let gone: Vec<String> = store.lock().unwrap().keys().filter(|k| !listed.contains(*k)).cloned().collect();
                gone.iter().for_each(|k| drop_key(&store, &namespace, k, None));
            }
            Ok(watcher::Event::Apply(o)) => put(&store, &namespace, &o),
            Ok(watcher::Event::Delete(o)) => drop_key(&store, &namespace, &key(&o), o.resource_version()),
            Err(e) => println!("NOTE {e:?}"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let kubeconfig = Kubeconfig::read_from(PathBuf::from(&args[1])).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let tell = MapRequestLayer::new(|r: http::Request<Body>| {
        println!("REQUEST - {} {}", r.method(), r.uri());
        r
    });
    let client = ClientBuilder::try_from(config).unwrap().with_layer(&tell).build();
    let store = Store::default();
    tokio::spawn(follow(Api::namespaced(client, &args[2]), store.clone(), args[2].clone()));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(name) = lines.next_line().await.unwrap() {
        let entries: Vec<String> = store.lock().unwrap().iter().map(|(k, rv)| format!(" {k}={rv}")).collect();
        println!("STORE {name}{}", entries.concat());
    }
    std::process::exit(0); // the input thread of tokio would wait
}
