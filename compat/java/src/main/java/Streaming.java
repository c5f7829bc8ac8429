import com.google.gson.reflect.TypeToken;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.util.Config;
import io.kubernetes.client.util.Watch;
import java.util.concurrent.TimeUnit;
import okhttp3.Response;

/**
 * Reads one streaming list to its end, compressed as OkHttp asks for it by itself, and
 * says what came. Arguments: a kubeconfig and the namespace.
 */
public final class Streaming {
  private Streaming() {}

  /** Reads the list. */
  public static void main(String[] args) throws Exception {
    ApiClient client = Config.fromConfig(args[0]);
    client.setHttpClient(
        client.getHttpClient().newBuilder()
            .readTimeout(0, TimeUnit.SECONDS)
            .addNetworkInterceptor(
                chain -> {
                  Response answer = chain.proceed(chain.request());
                  System.out.println("ENCODING " + answer.header("Content-Encoding"));
                  return answer;
                })
            .build());
    int added = 0;
    try (Watch<V1ConfigMap> watch =
        Watch.createWatch(
            client,
            new CoreV1Api(client)
                .listNamespacedConfigMap(args[1])
                .watch(true)
                .sendInitialEvents(true)
                .resourceVersionMatch("NotOlderThan")
                .allowWatchBookmarks(true)
                .timeoutSeconds(3)
                .buildCall(null),
            new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType())) {
      while (watch.hasNext()) {
        Watch.Response<V1ConfigMap> event = watch.next();
        if (event.type.equals("ADDED")) {
          added++;
        }
      }
    }
    System.out.println("END " + added);
    System.exit(0);
  }
}
