package replicas_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/kinds"
)

// left are the plugins of kube-apiserver that are on by default there and not in gapless.
var left = []string{
	"LimitRanger", "ServiceAccount", "TaintNodesByCondition", "PodSecurity", "Priority", "DefaultTolerationSeconds",
	"DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "PersistentVolumeClaimResize",
	"RuntimeClass", "DefaultIngressClass", "ClusterTrustBundleAttest", "PodTopologyLabels", "NodeDeclaredFeatureValidator",
	"PodResizeValidator", "ResourceQuota",
}

// end is one of both servers, as a client with a certificate of the cluster's CA sees it.
type end struct {
	name, url string
	web       *http.Client
}

// reply is an answer.
type reply struct {
	code     int
	warnings []string
	text     []byte
}

// request is one request but for the server that it goes to.
type request struct {
	method, path, contentType string
	body                      []byte
}

// do sends a request, again where a server that is busy refuses it, or has not reached a resourceVersion yet.
func (e *end) do(ctx context.Context, r request) (reply, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := e.once(ctx, r)
		again := answer.code == http.StatusServiceUnavailable || answer.code == http.StatusTooManyRequests ||
			answer.code == http.StatusGatewayTimeout && r.method == http.MethodGet
		if err != nil || !again {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (e *end) once(ctx context.Context, r request) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, e.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return reply{}, fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("User-Agent", "beside/1")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := e.web.Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("%s at %s: %w", r.method, e.name, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, fmt.Errorf("%s at %s: read the answer: %w", r.method, e.name, err)
	}
	return reply{code: resp.StatusCode, warnings: resp.Header.Values("Warning"), text: text}, nil
}

// get reads an object or a list; nil is what there is not.
func (e *end) get(ctx context.Context, path string) (map[string]any, error) {
	r, err := e.do(ctx, request{method: http.MethodGet, path: path})
	switch {
	case err != nil:
		return nil, err
	case r.code == http.StatusNotFound:
		return nil, nil
	case r.code != http.StatusOK:
		return nil, fmt.Errorf("GET %s at %s: %d %s", path, e.name, r.code, r.text)
	}
	return tree(r.text)
}

// tree decodes an object, with numbers as they are written.
func tree(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("decode %.200q: %w", text, err)
	}
	return o, nil
}

// both are a kube-apiserver and a replica over one etcd, with the same plugins of admission and without controllers.
type both struct {
	cluster  *harness.Cluster
	gapless  *replica
	dir, etc string // the directory of the replica, and that of the configurations of encryption
	config   func(*gapless.Config)
	upstream *end
	ours     *end
}

// startBoth starts both, which encrypt Secrets by some providers of an EncryptionConfiguration, without the plugins that
// only one of them has, and without quotas, which would be for all that a test writes.
func startBoth(t *testing.T, providers string) *both { return startBothWithout(t, providers, left) }

// startBothWithout is startBoth without some plugins.
func startBothWithout(t *testing.T, providers string, off []string) *both {
	t.Helper()
	b := &both{dir: t.TempDir(), etc: t.TempDir()}
	b.cluster = harness.StartCluster(t, "--allow-privileged=true", "--disable-admission-plugins="+strings.Join(off, ","),
		"--encryption-provider-config="+b.encrypt(t, "kube-apiserver", providers))
	file, authority := b.encrypt(t, "gapless", providers), writeFile(t, b.etc, "ca.crt", b.cluster.Admin.CA)
	b.config = func(cfg *gapless.Config) {
		cfg.EncryptionProviderConfig = file
		cfg.Authentication.ClientCAFile = authority
		cfg.Etcd.HealthcheckTimeout = 5 * time.Minute // the machine may be busy
		cfg.Controllers = []string{"-namespace-controller", "-garbage-collector-controller", "-resourcequota-controller"}
		for _, name := range off {
			if slices.Contains(gapless.AdmissionPlugins(), name) {
				cfg.DisableAdmissionPlugins = append(cfg.DisableAdmissionPlugins, name)
			}
		}
	}
	b.upstream = b.end(t, "kube-apiserver", b.cluster.URL, b.cluster.Admin.CA)
	b.startGapless(t)
	return b
}

// encrypt writes the configuration of encryption that a server has from its next start on, and returns the file.
func (b *both) encrypt(t *testing.T, server, providers string) string {
	t.Helper()
	return writeFile(t, b.etc, server+".yaml", []byte(`{"apiVersion":"apiserver.config.k8s.io/v1",
		"kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[`+providers+`]}]}`))
}

// startGapless starts the replica, again if it was stopped.
func (b *both) startGapless(t *testing.T) {
	t.Helper()
	b.gapless = start(t, b.cluster.EtcdURL(), b.dir, b.config)
	cfg := b.gapless.RESTConfig()
	b.ours = b.end(t, "gapless", cfg.Host, cfg.CAData)
}

func (b *both) end(t *testing.T, name, url string, authority []byte) *end {
	t.Helper()
	admin := b.cluster.Admin
	own, err := tls.X509KeyPair(admin.Cert, admin.Key)
	if err != nil {
		t.Fatalf("read the client's certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &end{name: name, url: url, web: &http.Client{Transport: transport}}
}

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
	return path
}

// pathOf is the path of an object, or of a collection; that of all namespaces if namespace is "".
func pathOf(r *kinds.Resource, namespace, name string) string {
	p := "/apis/" + r.APIVersion()
	if r.Group == "" {
		p = "/api/" + r.Version
	}
	if r.Namespaced && namespace != "" {
		p += "/namespaces/" + namespace
	}
	if p += "/" + r.Plural; name != "" {
		p += "/" + name
	}
	return p
}

// Each object has a twin, which only kube-apiserver writes. What is called mixed in the one is called plain in the
// other. IPAddresses are named otherwise.
var (
	toTwin   = strings.NewReplacer("mixed", "plain", "10.77.1.", "10.77.2.")
	fromTwin = strings.NewReplacer("plain", "mixed", "10.77.2.", "10.77.1.")
)

var (
	anyUID     = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	anyVersion = regexp.MustCompile(`\b[0-9]{3,}\b`)
	anyTime    = regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z"`)
	// began is before every time that a server sets; those of the manifests are from months ago.
	began = time.Now().Add(-time.Minute)
)

// normal is an answer or an object in etcd without what differs between twins: its uid, its resourceVersion, and
// times that the server has set.
func normal(text []byte) (map[string]any, error) {
	o, err := tree(text)
	if err != nil {
		return nil, err
	}
	if o["kind"] == "Status" {
		text = anyVersion.ReplaceAll(anyUID.ReplaceAll(text, []byte("UID")), []byte("0"))
		if o, err = tree([]byte(fromTwin.Replace(string(text)))); err != nil {
			return nil, err
		}
		withoutRepetition(o)
		return o, nil
	}
	all := []any{o}
	if items, is := o["items"].([]any); is {
		all = append(all, items...)
	}
	for _, one := range all {
		one, _ := one.(map[string]any)
		metadata, _ := one["metadata"].(map[string]any)
		if uid, is := metadata["uid"].(string); is && uid != "" {
			text = bytes.ReplaceAll(text, []byte(uid), []byte("UID"))
		}
	}
	text = anyTime.ReplaceAllFunc(text, func(quoted []byte) []byte {
		if at, err := time.Parse(`"`+time.RFC3339+`"`, string(quoted)); err == nil && at.After(began) {
			return []byte(`"NOW"`)
		}
		return quoted
	})
	if o, err = tree([]byte(fromTwin.Replace(string(text)))); err != nil {
		return nil, err
	}
	items, isList := o["items"].([]any)
	if metadata, _ := o["metadata"].(map[string]any); isList && metadata["continue"] == "" {
		delete(metadata, "continue") // kube-apiserver writes it for custom resources: docs/differences.md
	}
	for _, one := range append(items, o) {
		one, _ := one.(map[string]any)
		metadata, _ := one["metadata"].(map[string]any)
		delete(metadata, "resourceVersion")
		kind, _ := o["kind"].(string)
		withoutDifferences(one, strings.TrimSuffix(kind, "List"))
		normalManagers(strings.TrimSuffix(kind, "List"), metadata)
	}
	return o, nil
}

// withoutDifferences leaves out what docs/differences.md says of an object of a kind.
func withoutDifferences(o map[string]any, kind string) {
	metadata, _ := o["metadata"].(map[string]any)
	spec, _ := o["spec"].(map[string]any)
	switch kind {
	case "Namespace":
		delete(metadata, "deletionGracePeriodSeconds")
	case "NetworkPolicy": // upstream counts a list that was empty and is null now
		delete(metadata, "generation")
	case "Service":
		if spec["type"] == "ExternalName" {
			delete(spec, "internalTrafficPolicy") // upstream stores it, and hides it
		}
		if ip, _ := spec["clusterIP"].(string); ip != "" && ip != "None" { // kube-apiserver has allocated another one
			spec["clusterIP"], spec["clusterIPs"] = "IP", []any{"IP"}
		}
	case "Role", "ClusterRole":
		if rules, is := o["rules"]; is && rules == nil {
			o["rules"] = []any{}
		}
	}
}

// normalManagers leaves out of what managers manage what docs/replicas.md says of a kind, and managers of nothing else.
// They are in the order of their times, which are not of the same second for twins.
func normalManagers(kind string, metadata map[string]any) {
	managers, _ := metadata["managedFields"].([]any)
	managers = slices.DeleteFunc(managers, func(manager any) bool {
		entry, _ := manager.(map[string]any)
		fields, _ := entry["fieldsV1"].(map[string]any)
		for _, path := range unnoted[kind] {
			without(fields, path)
		}
		return len(fields) == 0
	})
	slices.SortFunc(managers, func(a, b any) int { return strings.Compare(jsonOf(a), jsonOf(b)) })
	if metadata["managedFields"] != nil {
		metadata["managedFields"] = managers
	}
}

// unnoted are fields of which the two servers say in other ways who manages them: annotations that kube-apiserver's
// conversions make of fields that its strategies set or drop only afterwards, and with them that there are annotations;
// devices, which at kube-apiserver whoever writes a ResourceSlice manages, also unchanged; conditions of requests that
// were written as a status.
var unnoted = map[string][][]string{
	"DaemonSet": {
		{"f:metadata", "f:annotations", "f:deprecated.daemonset.template.generation"}, {"f:metadata", "f:annotations", "."},
	},
	"HorizontalPodAutoscaler": {
		{"f:metadata", "f:annotations", "f:autoscaling.alpha.kubernetes.io/current-metrics"},
		{"f:metadata", "f:annotations", "f:autoscaling.alpha.kubernetes.io/conditions"},
		{"f:metadata", "f:annotations", "."},
	},
	"ResourceSlice":             {{"f:spec", "f:devices"}},
	"CertificateSigningRequest": {{"f:status", "f:conditions"}},
}

// without leaves out a member of a tree, and the members above it that are empty then.
func without(o map[string]any, path []string) {
	if len(path) == 1 {
		delete(o, path[0])
		return
	}
	child, is := o[path[0]].(map[string]any)
	if !is {
		return
	}
	if without(child, path[1:]); len(child) == 0 {
		delete(o, path[0])
	}
}

// withoutRepetition leaves one of each cause of a refusal, of which kube-apiserver lists those in the metadata twice or
// three times, without the value that it prints. The message says the same as they do.
func withoutRepetition(status map[string]any) {
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	if len(causes) == 0 {
		if text, is := status["message"].(string); is { // upstream has them in the order of a map
			lines := strings.Split(text, "\n")
			slices.Sort(lines)
			status["message"] = strings.Join(lines, "\n")
		}
		return
	}
	delete(status, "message")
	for _, one := range causes {
		one, _ := one.(map[string]any)
		if text, is := one["message"].(string); is {
			one["message"] = withoutValue(text)
		}
	}
	slices.SortFunc(causes, func(a, b any) int { return strings.Compare(jsonOf(a), jsonOf(b)) })
	details["causes"] = slices.CompactFunc(causes, func(a, b any) bool { return jsonOf(a) == jsonOf(b) })
}

// printed are the beginnings of causes after which upstream prints a value.
var printed = []string{"Invalid value: ", "Unsupported value: ", "Duplicate value: "}

// withoutValue leaves out the value in the message of a cause, and how two of them differ: upstream prints its internal
// type, or null (docs/differences.md).
func withoutValue(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if missing := "Required value"; strings.HasPrefix(text, missing) {
		return missing
	}
	for _, begin := range printed {
		rest, is := strings.CutPrefix(text, begin)
		if !is {
			continue
		}
		d := json.NewDecoder(strings.NewReader(rest))
		var value any
		if d.Decode(&value) == nil {
			return begin + "VALUE" + rest[d.InputOffset():]
		}
	}
	return text
}

// jsonOf encodes what was decoded.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode a tree: %v", err))
	}
	return string(text)
}
