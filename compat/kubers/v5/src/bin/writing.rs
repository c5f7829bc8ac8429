//! Creates configmaps, and updates each once: see harness.Writing. Arguments: a kubeconfig, the namespace,
//! and how many.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let kubeconfig = Kubeconfig::read_from(PathBuf::from(&args[1])).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), &args[2]);
    stream::iter(0..args[3].parse::<usize>().unwrap())
        .map(|_| async {
            let mut o = ConfigMap::default();
            o.metadata.generate_name = Some("made-".into());
            let mut made = api.create(&PostParams::default(), &o).await?;
            made.data = Some(BTreeMap::from([("updated".into(), "true".into())]));
            api.replace(&made.name_any(), &PostParams::default(), &made).await
        })
        .buffer_unordered(16)
        .try_for_each(|_| async { Ok(()) })
        .await
        .unwrap();
}
