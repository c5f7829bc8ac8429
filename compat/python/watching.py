"""Keeps the configmaps of a namespace by streaming lists and watches of the official
client, and says what it sees: see harness.Foreign. Arguments: a kubeconfig and the
namespace."""

import sys
import threading
import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

config.load_kube_config(sys.argv[1])
namespace = sys.argv[2]
path = f"/api/v1/namespaces/{namespace}/configmaps"
store = {}
lock = threading.Lock()
output = threading.Lock()


def say(*words):
    with output:  # print writes word by word
        print(*words, flush=True)


def put(key, rv):
    with lock:
        was = store.get(key)
        store[key] = rv
    if was is None:
        say("ADDED", namespace, key, rv)
    elif was != rv:
        say("UPDATED", namespace, key, was, rv)


def drop(key, rv):
    with lock:
        was = store.pop(key, None)
    if was is not None:
        say("DELETED", namespace, key, rv or was)


def follow(rv):
    """Watches once; returns where to go on, None to read the whole state."""
    options = {"namespace": namespace, "allow_watch_bookmarks": True, "timeout_seconds": 60}
    listed = set() if rv is None else None
    if listed is None:
        options["resource_version"] = rv
        say("REQUEST", "-", "GET", path + "?watch=true")
    else:
        options.update(send_initial_events=True, resource_version_match="NotOlderThan")
        say("REQUEST", "-", "GET", path + "?watch=true&sendInitialEvents=true")
    try:
        for event in watch.Watch().stream(client.CoreV1Api().list_namespaced_config_map, **options):
            meta = event["raw_object"]["metadata"]
            key = f"{meta.get('namespace')}/{meta.get('name')}"
            if event["type"] == "DELETED":
                drop(key, meta["resourceVersion"])
            elif event["type"] != "BOOKMARK":
                put(key, meta["resourceVersion"])
                if listed is not None:
                    listed.add(key)
            elif listed is not None and (meta.get("annotations") or {}).get("k8s.io/initial-events-end"):
                for gone in set(store) - listed:
                    drop(gone, None)
                listed = None
            if listed is None:
                rv = meta["resourceVersion"]
    except ApiException as e:
        say("NOTE", e.status, e.reason)
        if e.status == 410:
            rv = None
        time.sleep(0.2)
    except Exception as e:  # a cut connection, or none
        say("NOTE", type(e).__name__)
        time.sleep(0.2)
    return rv


def run():
    rv = None
    while True:
        rv = follow(rv)


threading.Thread(target=run, daemon=True).start()
for line in sys.stdin:
    with lock:
        entries = [f"{key}={rv}" for key, rv in store.items()]
    say("STORE", line.strip(), *entries)
