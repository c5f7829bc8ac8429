import io.kubernetes.client.informer.ResourceEventHandler;
import io.kubernetes.client.informer.SharedIndexInformer;
import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ConfigMapList;
import io.kubernetes.client.util.CallGeneratorParams;
import io.kubernetes.client.util.Config;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;

/**
 * Keeps the configmaps of a namespace by an informer, and says what it sees: see
 * harness.Foreign. Arguments: a kubeconfig and the namespace.
 */
public final class Informing {
  private Informing() {}

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private static String key(V1ConfigMap o) {
    return o.getMetadata().getNamespace() + "/" + o.getMetadata().getName();
  }

  private static String rv(V1ConfigMap o) {
    return o.getMetadata().getResourceVersion();
  }

  /** Runs the informer until the standard input ends. */
  public static void main(String[] args) throws Exception {
    String namespace = args[1];
    ApiClient client = Config.fromConfig(args[0]);
    client.setHttpClient(
        client.getHttpClient().newBuilder()
            .readTimeout(0, TimeUnit.SECONDS)
            .addInterceptor(
                chain -> {
                  say("REQUEST - " + chain.request().method() + " " + chain.request().url());
                  return chain.proceed(chain.request());
                })
            .build());
    CoreV1Api api = new CoreV1Api(client);
    SharedInformerFactory factory = new SharedInformerFactory(client);
    SharedIndexInformer<V1ConfigMap> informer =
        factory.sharedIndexInformerFor(
            (CallGeneratorParams p) ->
                api.listNamespacedConfigMap(namespace)
                    .resourceVersion(p.resourceVersion)
                    .timeoutSeconds(p.timeoutSeconds)
                    .watch(p.watch)
                    .buildCall(null),
            V1ConfigMap.class,
            V1ConfigMapList.class);
    informer.addEventHandler(
        new ResourceEventHandler<V1ConfigMap>() {
          @Override
          public void onAdd(V1ConfigMap o) {
            say("ADDED " + namespace + " " + key(o) + " " + rv(o));
          }

          @Override
          public void onUpdate(V1ConfigMap before, V1ConfigMap after) {
            say("UPDATED " + namespace + " " + key(after) + " " + rv(before) + " " + rv(after));
          }

          @Override
          public void onDelete(V1ConfigMap o, boolean unknown) {
            say("DELETED " + namespace + " " + key(o) + " " + rv(o));
          }
        });
    factory.startAllRegisteredInformers();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      StringBuilder s = new StringBuilder("STORE " + line);
      informer.getIndexer().list().forEach(o -> s.append(' ').append(key(o)).append('=').append(rv(o)));
      say(s.toString());
    }
    System.exit(0);
  }
}
