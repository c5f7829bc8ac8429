// Keeps the configmaps of a namespace by an informer, and says what it sees: see
// harness.Foreign. Arguments: a kubeconfig and the namespace.
import * as k8s from '@kubernetes/client-node';
import readline from 'node:readline';

const [kubeconfig, namespace] = process.argv.slice(2);
const path = `/api/v1/namespaces/${namespace}/configmaps`;
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const api = config.makeApiClient(k8s.CoreV1Api);
const key = (o) => `${o.metadata.namespace}/${o.metadata.name}`;
const rv = (o) => o.metadata.resourceVersion;
const say = (line) => process.stdout.write(line + '\n');

const seen = new Map();
const put = (o) => {
  const was = seen.get(key(o));
  seen.set(key(o), rv(o));
  if (was === undefined) {
    say(`ADDED ${namespace} ${key(o)} ${rv(o)}`);
  } else {
    say(`UPDATED ${namespace} ${key(o)} ${was} ${rv(o)}`);
  }
};

const informer = k8s.makeInformer(config, path, () => {
  say(`REQUEST - GET ${path}`);
  return api.listNamespacedConfigMap({ namespace });
});
informer.on('add', put);
informer.on('update', put);
informer.on('delete', (o) => {
  seen.delete(key(o));
  say(`DELETED ${namespace} ${key(o)} ${rv(o)}`);
});
// After an error it stands still until it is started again, which lists.
const start = () => informer.start().catch(again);
const again = (err) => {
  say(`NOTE ${err}`);
  setTimeout(start, 300);
};
informer.on('error', again);
start();

const input = readline.createInterface({ input: process.stdin });
input.on('line', (name) => {
  say(`STORE ${name}${informer.list(namespace).map((o) => ` ${key(o)}=${rv(o)}`).join('')}`);
});
input.on('close', () => process.exit(0));
