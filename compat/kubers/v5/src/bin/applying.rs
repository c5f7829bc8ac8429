//! Server-side apply, and an operator with it. Argument: a kubeconfig. It checks what apply
//! does, prints "CHECKED", and then runs a controller on the configmaps that are labelled
//! operated=yes, until its input ends: each has a finalizer and owns a secret, which is
//! applied, and leaves a configmap behind when it is deleted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, Config, Error, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

fn settings(data: Value) -> Patch<Value> {
    Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data}))
}

fn data(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    Some(pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
}

async fn check_apply(client: Client) -> Result<(), Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let made = maps.patch("applied", &one, &settings(json!({"a": "1", "b": "1"}))).await?;
    let again = maps.patch("applied", &one, &settings(json!({"a": "1", "b": "1"}))).await?;
    assert_eq!(made.resource_version(), again.resource_version(), "an apply that changes nothing");
    maps.patch("applied", &two, &settings(json!({"c": "2"}))).await?;

    // A field of another manager: a conflict with its cause, unless it is forced.
    let refused = maps.patch("applied", &two, &settings(json!({"a": "2", "c": "2"}))).await;
    let Err(Error::Api(status)) = refused else { panic!("a conflict is {refused:?}") };
    let causes: Vec<_> = status.details.iter().flat_map(|d| &d.causes).map(|c| (c.reason.as_str(), c.field.as_str())).collect();
    assert_eq!((status.code, status.reason.as_str(), causes), (409, "Conflict", vec![("FieldManagerConflict", ".data.a")]));
    assert!(status.message.contains(r#"conflict with "one": .data.a"#), "{}", status.message);
    let forced = maps.patch("applied", &two.clone().force(), &settings(json!({"a": "2", "c": "2"}))).await?;
    assert_eq!(forced.data, data(&[("a", "2"), ("b", "1"), ("c", "2")]));

    // What a manager no longer applies goes away, unless another applies it too.
    let dry = maps.patch("applied", &one.clone().dry_run(), &settings(json!({}))).await?;
    assert_eq!(dry.data, data(&[("a", "2"), ("c", "2")]));
    assert_eq!(maps.get("applied").await?.data, forced.data, "a dry run changes nothing");
    assert_eq!(maps.patch("applied", &one, &settings(json!({}))).await?.data, dry.data);
    let managers: Vec<_> = maps.get("applied").await?.managed_fields().iter().filter_map(|m| m.manager.clone()).collect();
    assert!(managers.contains(&"two".to_string()), "{managers:?}");

    // The status has its own managers.
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "applied"},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    deployments.patch("applied", &one, &Patch::Apply(web)).await?;
    let ready = |replicas: i32| {
        Patch::Apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "applied"},
            "spec": {"replicas": 7}, "status": {"replicas": replicas, "readyReplicas": replicas}}))
    };
    let seen = deployments.patch_status("applied", &two, &ready(1)).await?;
    assert_eq!(seen.status.and_then(|s| s.ready_replicas), Some(1));
    assert_eq!(seen.spec.replicas, Some(1), "an apply of the status leaves the spec alone");
    let refused = deployments.patch_status("applied", &one, &ready(2)).await;
    assert!(matches!(&refused, Err(Error::Api(s)) if s.code == 409 && s.details.as_ref().is_some_and(|d| d.causes.len() == 2)), "{refused:?}");
    deployments.patch_status("applied", &one.force(), &ready(2)).await?;
    deployments.delete("applied", &DeleteParams::foreground()).await?;
    Ok(())
}

async fn operate(owner: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::runtime::finalizer::Error<Error>> {
    let maps: Api<ConfigMap> = Api::default_namespaced((*client).clone());
    let secrets: Api<Secret> = Api::default_namespaced((*client).clone());
    finalizer(&maps.clone(), "example.org/operator", owner, |event| async move {
        match event {
            Event::Apply(o) => {
                let child = json!({"apiVersion": "v1", "kind": "Secret",
                    "metadata": {"name": o.name_any(), "ownerReferences": [o.controller_owner_ref(&()).unwrap()]},
                    "stringData": {"of": o.data.as_ref().and_then(|d| d.get("of")).cloned().unwrap_or_default()}});
                secrets.patch(&o.name_any(), &PatchParams::apply("operator").force(), &Patch::Apply(child)).await?;
            }
            Event::Cleanup(o) => {
                let mut note = ConfigMap::default();
                note.meta_mut().name = Some(format!("{}-was-here", o.name_any()));
                match maps.create(&PostParams::default(), &note).await {
                    Err(Error::Api(s)) if s.code == 409 => {}
                    made => drop(made?),
                }
            }
        }
        Ok(Action::await_change())
    })
    .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let kubeconfig = Kubeconfig::read_from(PathBuf::from(std::env::args().nth(1).unwrap())).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    check_apply(client.clone()).await.unwrap();
    println!("CHECKED");
    let operated = watcher::Config::default().labels("operated=yes");
    let run = Controller::new(Api::<ConfigMap>::default_namespaced(client.clone()), operated)
        .owns(Api::<Secret>::default_namespaced(client.clone()), watcher::Config::default())
        .run(operate, |_, e, _| { println!("NOTE {e:?}"); Action::requeue(Duration::from_millis(200)) }, Arc::new(client))
        .for_each(|outcome| async move {
            if let Err(e) = outcome { println!("NOTE {e}") }
        });
    tokio::spawn(run);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await.unwrap().is_some() {}
    std::process::exit(0); // the input thread of tokio would wait
}
