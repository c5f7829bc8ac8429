// Creates configmaps, and updates each once: see harness.Writing. Arguments: a kubeconfig, the namespace,
// and how many.
import * as k8s from '@kubernetes/client-node';

const [kubeconfig, namespace, count] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const api = config.makeApiClient(k8s.CoreV1Api);

let left = Number(count);
const work = async () => {
  while (left-- > 0) {
    const body = await api.createNamespacedConfigMap({ namespace, body: { metadata: { generateName: 'made-' } } });
    body.data = { updated: 'true' };
    await api.replaceNamespacedConfigMap({ namespace, name: body.metadata.name, body });
  }
};
await Promise.all(Array.from({ length: 16 }, work));
process.exit(0); // connections are kept alive
