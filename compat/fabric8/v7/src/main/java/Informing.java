import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.http.BasicBuilder;
import io.fabric8.kubernetes.client.http.HttpRequest;
import io.fabric8.kubernetes.client.http.Interceptor;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Informers of the newest client: over WebSocket, which is its default, on configmaps
 * and on a custom resource, and over HTTP alone. Arguments: the URL, and a kubeconfig for
 * the rest. They say what they see on the standard output, a line
 * each, and answer the name of one with what its store has.
 */
public final class Informing {
  private Informing() {}

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private static String key(HasMetadata o) {
    return o.getMetadata().getNamespace() + "/" + o.getMetadata().getName();
  }

  private static String rv(HasMetadata o) {
    return o.getMetadata().getResourceVersion();
  }

  private static <T extends HasMetadata> SharedIndexInformer<T> start(String name, SharedIndexInformer<T> informer) {
    informer.addEventHandler(
        new ResourceEventHandler<T>() {
          @Override
          public void onAdd(T o) {
            say("ADDED " + name + " " + key(o) + " " + rv(o));
          }

          @Override
          public void onUpdate(T before, T after) {
            say("UPDATED " + name + " " + key(after) + " " + rv(before) + " " + rv(after));
          }

          @Override
          public void onDelete(T o, boolean unknown) {
            say("DELETED " + name + " " + key(o) + " " + rv(o));
          }
        });
    informer.exceptionHandler(
        (started, cause) -> {
          say("NOTE " + name + " " + cause);
          return true;
        });
    informer.start();
    return informer;
  }

  private static KubernetesClient client(Config config) {
    return new KubernetesClientBuilder()
        .withConfig(config)
        .withHttpClientBuilderConsumer(
            b ->
                b.addOrReplaceInterceptor(
                    "count",
                    new Interceptor() {
                      @Override
                      public void before(BasicBuilder builder, HttpRequest request, RequestTags tags) {
                        say("REQUEST - " + request.method() + " " + request.uri().getRawPath() + "?" + request.uri().getRawQuery());
                      }
                    }))
        .build();
  }

  /** Runs the informers until the standard input ends. */
  public static void main(String[] args) throws Exception {
    Config config = Config.fromKubeconfig(new File(args[1]));
    config.setMasterUrl(args[0]);
    KubernetesClient sockets = client(config);
    KubernetesClient plain = client(new ConfigBuilder(config).withOnlyHttpWatches(true).build());
    ResourceDefinitionContext widgets =
        new ResourceDefinitionContext.Builder()
            .withGroup("example.org").withVersion("v1").withKind("Widget").withPlural("widgets").withNamespaced(true)
            .build();
    Map<String, SharedIndexInformer<? extends HasMetadata>> all = new LinkedHashMap<>();
    all.put("configmaps", start("configmaps", sockets.configMaps().inNamespace("default").runnableInformer(0)));
    all.put("widgets", start("widgets", sockets.genericKubernetesResources(widgets).inNamespace("default").runnableInformer(0)));
    all.put("plain", start("plain", plain.configMaps().inNamespace("plain").runnableInformer(0)));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      StringBuilder s = new StringBuilder("STORE " + line);
      all.get(line).getStore().list().forEach(o -> s.append(' ').append(key(o)).append('=').append(rv(o)));
      say(s.toString());
    }
    all.values().forEach(SharedIndexInformer::stop);
    sockets.close();
    plain.close();
    System.exit(0);
  }
}
