package operators

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/compat/harness"
)

// cluster is a server, RBAC on, and the administrator's clients.
type cluster struct {
	bin, home string
	server    *harness.Server
	config    *rest.Config
	typed     kubernetes.Interface
	objects   dynamic.Interface
	kinds     *restmapper.DeferredDiscoveryRESTMapper
}

func startCluster(t *testing.T, bin string) *cluster {
	t.Helper()
	c := &cluster{bin: bin, home: t.TempDir()}
	c.server = harness.StartProgram(t, filepath.Join(bin, "gapless"), "--bootstrap=cluster")
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.server.Kubeconfig); err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	c.config.QPS = -1 // no limit
	if c.typed, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatalf("make a client: %v", err)
	}
	if c.objects, err = dynamic.NewForConfig(c.config); err != nil {
		t.Fatalf("make a client: %v", err)
	}
	c.kinds = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.typed.Discovery()))
	return c
}

// kubeconfig writes a kubeconfig with a token of a service account.
func (c *cluster) kubeconfig(t *testing.T, namespace, account string) string {
	t.Helper()
	hour := int64(3600)
	token, err := c.typed.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("get a token of %s/%s: %v", namespace, account, err)
	}
	file := clientcmdapi.NewConfig()
	file.CurrentContext = account
	file.Contexts[account] = &clientcmdapi.Context{Cluster: account, AuthInfo: account, Namespace: namespace}
	file.Clusters[account] = &clientcmdapi.Cluster{Server: c.config.Host, CertificateAuthorityData: c.config.CAData}
	file.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatalf("write to file: %v", err)
	}
	return path
}

// helm runs Helm as the administrator.
func (c *cluster) helm(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.bin, "helm"), args...)
	cmd.Env = append(os.Environ(), "HOME="+c.home, "KUBECONFIG="+c.server.Kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// endpoint says that a service is on this machine.
func (c *cluster) endpoint(t *testing.T, namespace, service string, port int32) {
	t.Helper()
	https := "https"
	_, err := c.typed.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-here", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &https, Port: &port}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create endpoint slices: %v", err)
	}
}

// of returns the client of the objects like one, in its namespace.
func (c *cluster) of(t *testing.T, o *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	gvk := o.GroupVersionKind()
	mapping, err := c.kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatalf("find the resource of %s: %v", gvk, err)
	}
	if o.GetNamespace() == "" {
		return c.objects.Resource(mapping.Resource)
	}
	return c.objects.Resource(mapping.Resource).Namespace(o.GetNamespace())
}

// create creates an object of YAML, and returns the error of the server.
func (c *cluster) create(t *testing.T, text string) error {
	t.Helper()
	o := parse(t, []byte(text))
	_, err := c.of(t, o).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// mustCreate creates objects of YAML that the server accepts.
func (c *cluster) mustCreate(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := c.create(t, text); err != nil {
			t.Fatalf("create:\n%s\n%v", text, err)
		}
	}
}

// get reads an object; nil if there is none.
func (c *cluster) get(t *testing.T, resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := c.objects.Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("get %s %s/%s: %v", resource.Resource, namespace, name, err)
	}
	return o
}

// ready waits until an object has the condition Ready.
func (c *cluster) ready(t *testing.T, resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	var o *unstructured.Unstructured
	harness.Eventually(t, resource.Resource+" "+namespace+"/"+name+" is ready", func() bool {
		if o = c.get(t, resource, namespace, name); o == nil {
			return false
		}
		conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		if err != nil {
			t.Fatalf("read the list: %v", err)
		}
		for _, condition := range conditions {
			if fields, is := condition.(map[string]any); is && fields["type"] == "Ready" && fields["status"] == "True" {
				return true
			}
		}
		return false
	})
	return o
}

// parse reads an object of YAML.
func parse(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &o.Object); err != nil {
		t.Fatalf("read:\n%s\n%v", text, err)
	}
	return o
}
