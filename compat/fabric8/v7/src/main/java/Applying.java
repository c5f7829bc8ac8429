import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.ManagedFieldsEntry;
import io.fabric8.kubernetes.api.model.StatusCause;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * What the newest client writes: apply by the server with conflicts and force, patches, the
 * status, finalizers. Argument: a kubeconfig. It prints a line for each that holds,
 * and ends with an exception at the first that does not.
 */
public final class Applying {
  private Applying() {}

  private static void check(String what, Object got, Object want) {
    if (!Objects.equals(got, want)) {
      throw new IllegalStateException(what + ": " + got + ", want " + want);
    }
    System.out.println("HOLDS " + what);
  }

  private static ConfigMap map(Map<String, String> data) {
    return new ConfigMapBuilder().withNewMetadata().withName("applied").withNamespace("default").endMetadata().withData(data).build();
  }

  private static void apply(KubernetesClient client) {
    ConfigMap made = client.resource(map(Map.of("a", "1", "b", "1"))).fieldManager("one").serverSideApply();
    ConfigMap again = client.resource(map(Map.of("a", "1", "b", "1"))).fieldManager("one").serverSideApply();
    check("an apply that changes nothing", again.getMetadata().getResourceVersion(), made.getMetadata().getResourceVersion());
    ManagedFieldsEntry entry = made.getMetadata().getManagedFields().get(0);
    check("the manager", entry.getManager() + " " + entry.getOperation(), "one Apply");
    client.resource(map(Map.of("c", "2"))).fieldManager("two").serverSideApply();
    try {
      client.resource(map(Map.of("a", "2", "c", "2"))).fieldManager("two").serverSideApply();
      throw new IllegalStateException("a conflict was not refused");
    } catch (KubernetesClientException e) {
      check("the code of a conflict", e.getCode(), 409);
      StatusCause cause = e.getStatus().getDetails().getCauses().get(0);
      check("its cause", cause.getReason() + " " + cause.getField(), "FieldManagerConflict .data.a");
    }
    ConfigMap forced = client.resource(map(Map.of("a", "2", "c", "2"))).fieldManager("two").forceConflicts().serverSideApply();
    check("a forced apply", forced.getData(), Map.of("a", "2", "b", "1", "c", "2"));
    ConfigMap left = client.resource(map(Map.of())).fieldManager("one").serverSideApply();
    check("what a manager leaves out", left.getData(), Map.of("a", "2", "c", "2"));
    try {
      client.resource(made).fieldManager("one").serverSideApply();
      throw new IllegalStateException("managedFields were applied");
    } catch (KubernetesClientException e) {
      check("an apply with managedFields", e.getCode(), 400);
    }
  }

  private static void patch(KubernetesClient client) {
    var map = client.configMaps().inNamespace("default").withName("applied");
    map.patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"d\":\"4\",\"c\":null}}");
    map.patch(PatchContext.of(PatchType.JSON), "[{\"op\":\"replace\",\"path\":\"/data/a\",\"value\":\"3\"}]");
    map.patch(PatchContext.of(PatchType.STRATEGIC_MERGE), "{\"metadata\":{\"labels\":{\"tier\":\"front\"}}}");
    ConfigMap after = map.edit(o -> new ConfigMapBuilder(o).addToData("e", "5").build());
    check("patches", after.getData(), Map.of("a", "3", "d", "4", "e", "5"));
    check("a label", after.getMetadata().getLabels(), Map.of("tier", "front"));
    after.getMetadata().setResourceVersion("1");
    try {
      client.resource(after).update();
      throw new IllegalStateException("an old version was updated");
    } catch (KubernetesClientException e) {
      check("an update of an old version", e.getCode(), 409);
    }
  }

  private static void status(KubernetesClient client) {
    Deployment web =
        new DeploymentBuilder()
            .withNewMetadata().withName("web").withNamespace("default").addToFinalizers("example.org/hold").endMetadata()
            .withNewSpec()
            .withNewSelector().addToMatchLabels("app", "web").endSelector()
            .withNewTemplate()
            .withNewMetadata().addToLabels("app", "web").endMetadata()
            .withNewSpec().addNewContainer().withName("c").withImage("i").endContainer().endSpec()
            .endTemplate()
            .endSpec()
            .build();
    client.resource(web).fieldManager("one").serverSideApply();
    Deployment ready =
        new DeploymentBuilder()
            .withNewMetadata().withName("web").withNamespace("default").endMetadata()
            .withNewStatus().withReplicas(1).withReadyReplicas(1).endStatus()
            .build();
    PatchContext apply = new PatchContext.Builder().withPatchType(PatchType.SERVER_SIDE_APPLY).withFieldManager("two").withForce(true).build();
    Deployment seen = client.resource(ready).subresource("status").patch(apply, ready);
    check("an applied status", seen.getStatus().getReadyReplicas(), 1);
    check("the spec beside it", seen.getSpec().getTemplate().getSpec().getContainers().get(0).getImage(), "i");
    seen = client.apps().deployments().inNamespace("default").withName("web").editStatus(o -> new DeploymentBuilder(o).editStatus().withReadyReplicas(0).endStatus().build());
    check("an edited status", Objects.requireNonNullElse(seen.getStatus().getReadyReplicas(), 0), 0);
    client.resource(web).delete();
    Deployment held = client.resource(web).get();
    check("a deletion waits for finalizers", held.getMetadata().getFinalizers(), List.of("example.org/hold"));
    check("and is marked", held.isMarkedForDeletion(), true);
    client.resource(web).edit(o -> new DeploymentBuilder(o).editMetadata().removeFromFinalizers("example.org/hold").endMetadata().build());
    check("without them it is gone", client.resource(web).get(), null);
  }

  /** Checks each, once. */
  public static void main(String[] args) {
    Config config = Config.fromKubeconfig(new File(args[0]));
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      apply(client);
      patch(client);
      status(client);
    }
    System.out.println("CHECKED");
    System.exit(0);
  }
}
