import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;
import io.javaoperatorsdk.operator.Operator;
import io.javaoperatorsdk.operator.api.reconciler.Cleaner;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ControllerConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.DeleteControl;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Workflow;
import io.javaoperatorsdk.operator.api.reconciler.dependent.Dependent;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.BooleanWithUndefined;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.CRUDKubernetesDependentResource;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.KubernetesDependent;
import java.io.File;
import java.util.Map;

/**
 * An operator as java-operator-sdk has them: each Site has a finalizer, a ConfigMap that
 * depends on it, applied by the server, and a status, which is applied too. What it leaves
 * behind is a ConfigMap NAME-was-here. Argument: a kubeconfig. It runs until its input ends.
 */
public final class Operating {
  private Operating() {}

  public static class Value {
    public String of;
  }

  @Group("example.org")
  @Version("v1")
  public static class Site extends CustomResource<Value, Value> implements Namespaced {}

  // It does not apply ConfigMaps and Secrets unless it is told to.
  @KubernetesDependent(useSSA = BooleanWithUndefined.TRUE)
  public static class Child extends CRUDKubernetesDependentResource<ConfigMap, Site> {
    public Child() {
      super(ConfigMap.class);
    }

    @Override
    protected ConfigMap desired(Site site, Context<Site> context) {
      return new ConfigMapBuilder()
          .withNewMetadata()
          .withName(site.getMetadata().getName())
          .withNamespace(site.getMetadata().getNamespace())
          .endMetadata()
          .withData(Map.of("of", site.getSpec().of))
          .build();
    }
  }

  @Workflow(dependents = @Dependent(type = Child.class))
  @ControllerConfiguration
  public static class SiteReconciler implements Reconciler<Site>, Cleaner<Site> {
    @Override
    public UpdateControl<Site> reconcile(Site site, Context<Site> context) {
      Site applied = new Site();
      applied.getMetadata().setName(site.getMetadata().getName());
      applied.getMetadata().setNamespace(site.getMetadata().getNamespace());
      applied.setStatus(new Value());
      applied.getStatus().of = site.getSpec().of;
      return UpdateControl.patchStatus(applied);
    }

    @Override
    public DeleteControl cleanup(Site site, Context<Site> context) {
      ConfigMap note =
          new ConfigMapBuilder()
              .withNewMetadata()
              .withName(site.getMetadata().getName() + "-was-here")
              .withNamespace(site.getMetadata().getNamespace())
              .endMetadata()
              .build();
      context.getClient().resource(note).fieldManager("operator").serverSideApply();
      return DeleteControl.defaultDelete();
    }
  }

  /** Runs the operator until the standard input ends. */
  public static void main(String[] args) throws Exception {
    Config config = Config.fromKubeconfig(new File(args[0]));
    KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build();
    Operator operator = new Operator(o -> o.withKubernetesClient(client));
    operator.register(new SiteReconciler());
    operator.start();
    System.out.println("STARTED");
    while (System.in.read() >= 0) {}
    operator.stop();
    client.close();
    System.exit(0);
  }
}
