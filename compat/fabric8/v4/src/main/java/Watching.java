import io.fabric8.kubernetes.api.builder.Function;
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.KubernetesResourceList;
import io.fabric8.kubernetes.api.model.apiextensions.CustomResourceDefinition;
import io.fabric8.kubernetes.api.model.apiextensions.CustomResourceDefinitionBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.client.CustomResourceDoneable;
import io.fabric8.kubernetes.client.CustomResourceList;
import io.fabric8.kubernetes.client.DefaultKubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.utils.HttpClientUtils;
import io.fabric8.kubernetes.internal.KubernetesDeserializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import okhttp3.OkHttpClient;

/**
 * A watch as programs of 2019 had it: list, then watch from there; the client connects
 * again by itself, and the program lists again when the watch is closed by a 410.
 * Arguments: the URL, the files of the CA, the certificate and its key, and the key's
 * algorithm (default EC). It says what it sees on its standard output, a line each, and answers "store" with what it has.
 */
public final class Watching<T extends HasMetadata> implements Watcher<T> {
  /** Opens a watch after a resourceVersion. */
  interface Opener<T> {
    Watch open(String resourceVersion, Watcher<T> watcher);
  }

  /** The custom resource of the test. */
  public static final class Widget extends CustomResource {
    public Map<String, Object> spec;
  }

  /** Its list. */
  public static final class WidgetList extends CustomResourceList<Widget> {}

  /** What the client wants a custom resource to have. */
  public static final class DoneableWidget extends CustomResourceDoneable<Widget> {
    public DoneableWidget(Widget resource, Function<Widget, Widget> function) {
      super(resource, function);
    }
  }

  private static final ScheduledExecutorService later = Executors.newScheduledThreadPool(2);

  private final String name;
  private final Supplier<KubernetesResourceList<T>> lister;
  private final Opener<T> opener;
  private final Map<String, String> store = new HashMap<>();
  private Watch watch;

  private Watching(String name, Supplier<KubernetesResourceList<T>> lister, Opener<T> opener) {
    this.name = name;
    this.lister = lister;
    this.opener = opener;
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private static String key(HasMetadata o) {
    return o.getMetadata().getNamespace() + "/" + o.getMetadata().getName();
  }

  /** Lists, says what is different, and watches from there. */
  private void begin() {
    String resourceVersion;
    try {
      KubernetesResourceList<T> list = lister.get();
      resourceVersion = list.getMetadata().getResourceVersion();
      replace(list);
    } catch (RuntimeException e) {
      say("NOTE " + name + " list: " + e);
      later.schedule(this::begin, 500, TimeUnit.MILLISECONDS);
      return;
    }
    follow(resourceVersion);
  }

  private void follow(String resourceVersion) {
    try {
      Watch opened = opener.open(resourceVersion, this);
      synchronized (this) {
        watch = opened;
      }
    } catch (RuntimeException e) {
      say("NOTE " + name + " watch: " + e);
      later.schedule(() -> follow(resourceVersion), 500, TimeUnit.MILLISECONDS);
    }
  }

  private synchronized void replace(KubernetesResourceList<T> list) {
    Set<String> gone = new HashSet<>(store.keySet());
    for (T o : list.getItems()) {
      gone.remove(key(o));
      if (!o.getMetadata().getResourceVersion().equals(store.get(key(o)))) {
        apply(o);
      }
    }
    for (String key : gone) {
      say("DELETED " + name + " " + key + " " + store.remove(key));
    }
  }

  private void apply(T o) {
    String to = o.getMetadata().getResourceVersion();
    String from = store.put(key(o), to);
    say(from == null ? "ADDED " + name + " " + key(o) + " " + to : "UPDATED " + name + " " + key(o) + " " + from + " " + to);
  }

  @Override
  public synchronized void eventReceived(Action action, T o) {
    String rv = o.getMetadata().getResourceVersion();
    switch (action) {
      case ADDED: // as it came, so that one that came twice is seen
        store.put(key(o), rv);
        say("ADDED " + name + " " + key(o) + " " + rv);
        return;
      case MODIFIED:
        say("UPDATED " + name + " " + key(o) + " " + store.put(key(o), rv) + " " + rv);
        return;
      case DELETED:
        store.remove(key(o));
        say("DELETED " + name + " " + key(o) + " " + rv);
        return;
      default:
        say("NOTE " + name + " event " + action);
    }
  }

  @Override
  public synchronized void onClose(KubernetesClientException cause) {
    say("CLOSED " + name + " " + (cause == null ? "by us" : cause.getCode() + " " + cause.getMessage()));
    if (cause != null) {
      Watch old = watch;
      later.execute(
          () -> {
            if (old != null) {
              old.close();
            }
            begin();
          });
    }
  }

  private synchronized String contents() {
    StringBuilder s = new StringBuilder("STORE " + name);
    store.forEach((key, rv) -> s.append(' ').append(key).append('=').append(rv));
    return s.toString();
  }

  /** Runs both watches until the standard input ends. */
  public static void main(String[] args) throws Exception {
    Config config =
        new ConfigBuilder()
            .withMasterUrl(args[0])
            .withCaCertFile(args[1])
            .withClientCertFile(args[2])
            .withClientKeyFile(args[3])
            .withClientKeyAlgo(args.length > 4 ? args[4] : "EC")
            .build();
    OkHttpClient http = HttpClientUtils.createHttpClient(config).newBuilder().addInterceptor(Watching::intercept).build();
    DefaultKubernetesClient client = new DefaultKubernetesClient(http, config);
    KubernetesDeserializer.registerCustomKind("example.org/v1", "Widget", Widget.class);
    CustomResourceDefinition widgets =
        new CustomResourceDefinitionBuilder()
            .withNewMetadata().withName("widgets.example.org").endMetadata()
            .withNewSpec().withGroup("example.org").withVersion("v1").withScope("Namespaced")
            .withNewNames().withPlural("widgets").withKind("Widget").endNames().endSpec()
            .build();
    var maps = client.configMaps().inNamespace("default");
    var crs = client.customResources(widgets, Widget.class, WidgetList.class, DoneableWidget.class).inNamespace("default");
    Map<String, Watching<?>> all = new HashMap<>();
    all.put("configmaps", new Watching<ConfigMap>("configmaps", maps::list, maps::watch));
    all.put("widgets", new Watching<Widget>("widgets", () -> (KubernetesResourceList<Widget>) crs.list(), crs::watch));
    all.values().forEach(Watching::begin);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      say(all.get(line).contents());
    }
    System.exit(0);
  }

  private static okhttp3.Response intercept(okhttp3.Interceptor.Chain chain) throws java.io.IOException {
    okhttp3.Request r = chain.request();
    String target = r.url().encodedPath() + "?" + r.url().encodedQuery();
    try {
      okhttp3.Response response = chain.proceed(r);
      say("REQUEST " + response.code() + " " + r.method() + " " + target);
      return response;
    } catch (java.io.IOException e) {
      say("REQUEST 0 " + r.method() + " " + target);
      throw e;
    }
  }
}
