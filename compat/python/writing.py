"""Creates configmaps with the official client, and updates each once: see harness.Writing. Arguments: a
kubeconfig, the namespace, and how many."""

import sys
from concurrent.futures import ThreadPoolExecutor

from kubernetes import client, config

config.load_kube_config(sys.argv[1])
namespace, count = sys.argv[2], int(sys.argv[3])
api = client.CoreV1Api()


def write(_):
    made = api.create_namespaced_config_map(namespace, {"metadata": {"generateName": "made-"}})
    made.data = {"updated": "true"}
    api.replace_namespaced_config_map(made.metadata.name, namespace, made)


with ThreadPoolExecutor(16) as pool:
    list(pool.map(write, range(count)))  # raises the first error
