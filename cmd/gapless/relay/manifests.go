package relay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// deployment is what gapless relay manifests prints.
type deployment struct {
	namespace, image string
	replicas         int32
	resources        []string
	secrets          bool
	storage          string
}

const (
	relayName = "gapless-relay"
	relayPort = 8443
)

// manifests is gapless relay manifests.
func (p Program) manifests() *cobra.Command {
	var d deployment
	cmd := &cobra.Command{
		Use:   "manifests --image IMAGE",
		Short: "Print the manifests of a relay in a cluster, with the role that it needs",
		Long: `Print a Deployment, a Service and a PodDisruptionBudget for a relay, and the ClusterRole that
it needs: to list and watch what it mirrors, to review tokens and permissions, and to pass on
requests of callers with client certificates by impersonating them. With --resources the role
is for these resources only. The image is one that has the program as /gapless.`,
		Example: `  gapless relay manifests --image registry.example.com/gapless:v1 | kubectl apply -f -`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.image == "" {
				return p.Usage(fmt.Errorf("name the image of the program: --image"))
			}
			size, err := resource.ParseQuantity(d.storage)
			if err != nil || size.Sign() <= 0 {
				return p.Usage(fmt.Errorf("--storage %q: want a size like 4Gi", d.storage))
			}
			for _, object := range d.objects(size) {
				text, err := yaml.Marshal(object)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "---\n%s", text); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&d.namespace, "namespace", "gapless", "namespace of the relay")
	flags.StringVar(&d.image, "image", "", "image with the program")
	flags.Int32Var(&d.replicas, "replicas", 2, "number of relays behind the Service; each has a mirror of its own")
	flags.StringSliceVar(&d.resources, "resources", []string{"*"},
		"resources that may be mirrored, as of gapless relay: others are passed through")
	flags.BoolVar(&d.secrets, "mirror-secrets", false,
		"mirror Secrets too, encrypted with the member key (32 bytes in base64) of a Secret gapless-relay-key, "+
			"which is not printed")
	flags.StringVar(&d.storage, "storage", "4Gi",
		"size of the volume for the history; it is an emptyDir, which outlives the container but not the pod")
	return cmd
}

func (d deployment) objects(storage resource.Quantity) []any {
	labels := map[string]string{"app.kubernetes.io/name": relayName}
	meta := metav1.ObjectMeta{Name: relayName, Namespace: d.namespace, Labels: labels}
	cluster := metav1.ObjectMeta{Name: relayName, Labels: labels}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: relayName, Namespace: d.namespace}}
	one := intstr.FromInt32(1)
	return []any{
		corev1.Namespace{TypeMeta: kind("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: d.namespace}},
		corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"), ObjectMeta: meta},
		rbacv1.ClusterRole{TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: cluster, Rules: d.rules()},
		rbacv1.ClusterRoleBinding{
			TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), ObjectMeta: cluster, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: relayName},
		},
		rbacv1.RoleBinding{
			TypeMeta:   kind("rbac.authorization.k8s.io/v1", "RoleBinding"),
			ObjectMeta: metav1.ObjectMeta{Name: relayName, Namespace: "kube-system", Labels: labels}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"},
		},
		d.deployment(meta, labels, storage),
		corev1.Service{
			TypeMeta: kind("v1", "Service"), ObjectMeta: meta,
			Spec: corev1.ServiceSpec{
				Selector: labels,
				Ports:    []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(relayPort)}},
			},
		},
		policyv1.PodDisruptionBudget{
			TypeMeta: kind("policy/v1", "PodDisruptionBudget"), ObjectMeta: meta,
			Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		},
	}
}

func kind(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// rules is all that the relay does with its own credentials.
func (d deployment) rules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, pattern := range d.resources {
		rule := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"list", "watch"}}
		if group, all := strings.CutPrefix(pattern, "*."); all {
			rule.APIGroups = []string{group}
		} else if pattern != "*" {
			parts := strings.Split(pattern, ".")
			rule.Resources, rule.APIGroups = parts[:1], []string{groupOf(parts[1:])}
		}
		rules = append(rules, rule)
	}
	return append(
		rules,
		rbacv1.PolicyRule{
			APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"users", "groups", "serviceaccounts"}, Verbs: []string{"impersonate"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{"authentication.k8s.io"},
			Resources: []string{"uids", "userextras/authentication.kubernetes.io/credential-id"}, Verbs: []string{"impersonate"},
		},
	)
}

// groupOf is the group of a resource's name without its first part, which may begin with a
// version: "v1.apps" or "apps".
func groupOf(parts []string) string {
	if len(parts) > 0 && len(parts[0]) > 1 && parts[0][0] == 'v' && parts[0][1] >= '0' && parts[0][1] <= '9' {
		parts = parts[1:]
	}
	return strings.Join(parts, ".")
}

func (d deployment) deployment(meta metav1.ObjectMeta, labels map[string]string, storage resource.Quantity) appsv1.Deployment {
	args := []string{"relay", "--data-dir=/data/relay", fmt.Sprintf("--listen=0.0.0.0:%d", relayPort)}
	if !slices.Equal(d.resources, []string{"*"}) {
		args = append(args, "--resources="+strings.Join(d.resources, ","))
	}
	if d.secrets {
		args = append(args, "--mirror-secrets", "--secrets-key-file=/key/key")
	}
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(relayPort), Scheme: corev1.URISchemeHTTPS},
			},
		}
	}
	yes, no := true, false
	mounts := []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	volumes := []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &storage}}},
	}
	if d.secrets {
		mounts = append(mounts, corev1.VolumeMount{Name: "key", MountPath: "/key", ReadOnly: true})
		volumes = append(volumes, corev1.Volume{
			Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: relayName + "-key"}},
		})
	}
	return appsv1.Deployment{
		TypeMeta: kind("apps/v1", "Deployment"), ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: &d.replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: relayName,
					Containers: []corev1.Container{{
						Name: "relay", Image: d.image, Command: []string{"/gapless"}, Args: args,
						Ports:          []corev1.ContainerPort{{Name: "https", ContainerPort: relayPort}},
						ReadinessProbe: probe("/readyz"), LivenessProbe: probe("/livez"),
						VolumeMounts: mounts,
						SecurityContext: &corev1.SecurityContext{
							ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes,
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
					Volumes: volumes,
				},
			},
		},
	}
}
