import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.Config;
import java.util.Collections;
import java.util.Map;
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
    String namespace = args[1];
    CoreV1Api api = new CoreV1Api(Config.fromConfig(args[0]));
    Callable<V1ConfigMap> write =
        () -> {
          V1ConfigMap o = new V1ConfigMap().metadata(new V1ObjectMeta().generateName("made-"));
          V1ConfigMap made = api.createNamespacedConfigMap(namespace, o).execute();
          made.setData(Map.of("updated", "true"));
          return api.replaceNamespacedConfigMap(made.getMetadata().getName(), namespace, made).execute();
        };
    ExecutorService pool = Executors.newFixedThreadPool(16);
    for (Future<V1ConfigMap> done : pool.invokeAll(Collections.nCopies(Integer.parseInt(args[2]), write))) {
      done.get();
    }
    System.exit(0); // connections are kept alive
  }
}
