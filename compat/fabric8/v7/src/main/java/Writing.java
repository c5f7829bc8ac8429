import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import java.io.File;
import java.util.Collections;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Creates configmaps, and updates each once: see harness.Writing. Arguments: a kubeconfig, the
 * namespace, and how many.
 */
public final class Writing {
  private Writing() {}

  /** Ends with an exception if a request fails. */
  public static void main(String[] args) throws Exception {
    KubernetesClient client = new KubernetesClientBuilder().withConfig(Config.fromKubeconfig(new File(args[0]))).build();
    Callable<ConfigMap> write =
        () -> {
          ConfigMap o = new ConfigMapBuilder().withNewMetadata().withGenerateName("made-").withNamespace(args[1]).endMetadata().build();
          ConfigMap made = client.resource(o).create();
          return client.resource(new ConfigMapBuilder(made).addToData("updated", "true").build()).update();
        };
    ExecutorService pool = Executors.newFixedThreadPool(16);
    for (Future<ConfigMap> done : pool.invokeAll(Collections.nCopies(Integer.parseInt(args[2]), write))) {
      done.get();
    }
    System.exit(0); // connections are kept alive
  }
}
