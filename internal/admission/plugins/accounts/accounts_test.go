package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/accounts"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

var (
	ofPods     = kinds.GroupResource{Resource: "pods"}
	ofAccounts = kinds.GroupResource{Resource: "serviceaccounts"}
	namespaces = kinds.GroupResource{Resource: "namespaces"}
)

const (
	account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: "
	pod     = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: team}\nspec: "
)

// present is a state in which seen comes to light when it is asked for.
type present struct {
	table *accounts.Table
	seen  *wire.Object
	err   error
}

func (p *present) FindFresh(context.Context, kinds.GroupResource, wire.Key) (*wire.Object, error) {
	if p.seen != nil {
		p.table.Change(ofAccounts, p.seen, false)
	}
	return p.seen, p.err
}

// filled is a table of some accounts, and the state that it is of.
func filled(t testing.TB, objects ...string) (*accounts.Table, *present) {
	t.Helper()
	p := &present{}
	p.table = accounts.Accounts(p)
	pluginstest.Fill(t, p.table, objects...)
	return p.table, p
}

var randomLetters = regexp.MustCompile(`^kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// plain replaces the random name of a volume.
func plain(in any) any {
	switch in := in.(type) {
	case map[string]any:
		for key, value := range in {
			in[key] = plain(value)
		}
	case []any:
		for i := range in {
			in[i] = plain(in[i])
		}
	case string:
		if randomLetters.MatchString(in) {
			return "kube-api-access-random"
		}
	}
	return in
}

const (
	volume = `{name: kube-api-access-random, projected: {defaultMode: 420, sources: [` +
		`{serviceAccountToken: {path: token, expirationSeconds: 3607}}, ` +
		`{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}, ` +
		`{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}}`
	mount = `{name: kube-api-access-random, readOnly: true, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}`
	named = `serviceAccountName: default, serviceAccount: default, `
)

func TestPodsGetAnAccountAndItsToken(t *testing.T) {
	table, _ := filled(t,
		account+"{name: default, namespace: team}\nimagePullSecrets: [{name: a}, {}]",
		account+"{name: quiet, namespace: team}\nautomountServiceAccountToken: false",
		account+"{name: elsewhere, namespace: other}")
	p := accounts.ServiceAccount(table)
	const pulls = `imagePullSecrets: [{name: a}, {}], `
	for spec, want := range map[string]string{
		`{containers: [{name: c}]}`: `{` + named + pulls + `containers: [{name: c, volumeMounts: [` + mount + `]}], volumes: [` +
			volume + `]}`,
		`{automountServiceAccountToken: false, imagePullSecrets: [{name: mine}], containers: [{name: c}]}`: `{` + named +
			`automountServiceAccountToken: false, imagePullSecrets: [{name: mine}], containers: [{name: c}]}`,
		`{initContainers: [{name: i}], containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}]}, {name: d, ` +
			`volumeMounts: [{name: v, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}], volumes: [{name: v}]}`: `{` +
			named + pulls + `initContainers: [{name: i, volumeMounts: [` + mount + `]}], containers: [{name: c, volumeMounts: [` +
			`{name: v, mountPath: /v}, ` + mount + `]}, {name: d, volumeMounts: [{name: v, mountPath: ` +
			`/var/run/secrets/kubernetes.io/serviceaccount}]}], volumes: [{name: v}, ` + volume + `]}`,
		`{serviceAccountName: quiet, containers: [{name: c}]}`: `{serviceAccountName: quiet, containers: [{name: c}]}`,
		`{serviceAccountName: quiet, automountServiceAccountToken: true, containers: [{name: c}], volumes: [{name: ` +
			`kube-api-access-mine}]}`: `{serviceAccountName: quiet, automountServiceAccountToken: true, containers: [{name: c, ` +
			`volumeMounts: [{name: kube-api-access-mine, readOnly: true, mountPath: ` +
			`/var/run/secrets/kubernetes.io/serviceaccount}]}], volumes: [{name: kube-api-access-mine}]}`,
		`{automountServiceAccountToken: 7, containers: [7, {volumeMounts: 8}]}`: `{` + named + pulls +
			`automountServiceAccountToken: 7, containers: [7, {volumeMounts: [` + mount + `]}], volumes: [` + volume + `]}`,
	} {
		u := pluginstest.Tree(t, pod+spec)
		// It is asked again where another plugin has changed the pod.
		for range 2 {
			if err := pluginstest.Of(p, ofPods).About(t, u, nil); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
		if diff := cmp.Diff(pluginstest.Tree(t, pod+want).Object, plain(u.Object)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", spec, diff)
		}
	}
	for _, name := range []string{"none", "elsewhere"} {
		err := pluginstest.Of(p, ofPods).About(t, pluginstest.Tree(t, pod+"{serviceAccountName: "+name+"}"), nil)
		want := fmt.Sprintf(`pods "p" is forbidden: error looking up service account team/%s: serviceaccount "%[1]s" not found`,
			name)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAnAccountThatAnotherServerHasMadeIsFound(t *testing.T) {
	table, state := filled(t)
	state.seen = pluginstest.Object(t, account+"{name: other, namespace: team}")
	p := accounts.ServiceAccount(table)
	if err := pluginstest.Of(p, ofPods).About(t, pluginstest.Tree(t, pod+"{serviceAccountName: other}"), nil); err != nil {
		t.Errorf("it is not found: %v", err)
	}
}

func TestAnAccountThatCannotBeReadIsNotTakenForMissing(t *testing.T) {
	table, state := filled(t)
	p := accounts.ServiceAccount(table)
	ask := func() error {
		return pluginstest.Of(p, ofPods).About(t, pluginstest.Tree(t, pod+"{serviceAccountName: lost}"), nil)
	}
	state.err = errors.New("etcd is away")
	if err := ask(); err == nil || !strings.Contains(err.Error(), "service account team/lost: etcd is away") {
		t.Errorf("without the store: %v", err)
	}
	state.err = nil
	table.Unknown = func(_ kinds.GroupResource, _, name string) error { return fmt.Errorf("%s cannot be read", name) }
	if err := ask(); err == nil || !strings.Contains(err.Error(), "service account team/lost: lost cannot be read") {
		t.Errorf("it cannot be read: %v", err)
	}
}

func TestPodsWaitForTheAccountDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := filled(t)
		p := accounts.ServiceAccount(table)
		ask := func() error { return pluginstest.Of(p, ofPods).About(t, pluginstest.Tree(t, pod+"{}"), nil) }
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := ask(); err != nil {
					t.Errorf("it was not waited for: %v", err)
				}
			})
		}
		synctest.Wait()
		table.Change(ofAccounts, pluginstest.Object(t, account+"{name: default, namespace: other}"), false)
		synctest.Wait()
		table.Change(ofAccounts, pluginstest.Object(t, account+"{name: default, namespace: team}"), false)
		wg.Wait()
		table.Change(ofAccounts, pluginstest.Object(t, account+"{name: default, namespace: team}"), true)
		if err := ask(); err == nil || !strings.Contains(err.Error(), `serviceaccount "default" not found`) {
			t.Errorf("one that never comes: %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the client has left")
		cancel(left)
		if _, err := table.Find(ctx, wire.Key{Namespace: "team", Name: "default"}); !errors.Is(err, left) {
			t.Errorf("a client that has left: %v", err)
		}
	})
}

func TestWritesKeepTheirTurnWhileEveryNamespaceHasAnAccount(t *testing.T) {
	table, _ := filled(t)
	object := func(kind, name, namespace string) *wire.Object {
		return pluginstest.Object(t, "apiVersion: v1\nkind: "+kind+"\nmetadata: {name: "+name+", namespace: "+namespace+"}")
	}
	a, other := object("ServiceAccount", "default", "a"), object("ServiceAccount", "other", "a")
	ns := pluginstest.Object(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}")
	want := func(lacks bool, when string) {
		t.Helper()
		if table.Lacks() != lacks {
			t.Errorf("%s: a namespace has none: %v, want %v", when, !lacks, lacks)
		}
	}
	want(false, "without namespaces")
	table.Change(namespaces, ns, false)
	table.Change(namespaces, ns, false)
	table.Change(ofAccounts, other, false)
	want(true, "a new namespace")
	table.Change(ofAccounts, a, false)
	want(false, "with the account")
	table.Change(ofAccounts, a, true)
	want(true, "its account was deleted")
	table.Change(namespaces, ns, true)
	want(false, "the namespace was deleted")
	table.Replace(namespaces, []*wire.Object{ns})
	want(true, "read again")
	table.Replace(ofAccounts, []*wire.Object{a, other})
	want(false, "read again, with the account")
	table.Replace(ofAccounts, nil)
	want(true, "read again, without the account")
	table.Replace(namespaces, nil)
	want(false, "read again, without namespaces")
}

func TestMirrorPodsUseNeitherAccountsNorSecrets(t *testing.T) {
	table, _ := filled(t, account+"{name: default, namespace: team}")
	p := accounts.ServiceAccount(table)
	const secrets = "a mirror pod may not reference secrets"
	for spec, want := range map[string]string{
		`{containers: [{name: c}]}`: "",
		`{serviceAccountName: default}`: "a mirror pod may not " +
			"reference service accounts",
		`{imagePullSecrets: [{name: s}]}`:                                                    secrets,
		`{imagePullSecrets: [{}]}`:                                                           "",
		`{ephemeralContainers: [{envFrom: [{secretRef: {name: s}}]}]}`:                       secrets,
		`{initContainers: [{env: [{valueFrom: {secretKeyRef: {name: s}}}]}]}`:                secrets,
		`{volumes: [{secret: {secretName: s}}]}`:                                             secrets,
		`{volumes: [{azureFile: {secretName: s}}]}`:                                          secrets,
		`{volumes: [{cephfs: {secretRef: {name: s}}}]}`:                                      secrets,
		`{volumes: [{csi: {nodePublishSecretRef: {name: s}}}]}`:                              secrets,
		`{volumes: [{projected: {sources: [{configMap: {name: a}}, {secret: {name: s}}]}}]}`: secrets,
		`{volumes: [{projected: {sources: [{serviceAccountToken: {path: t}}]}}]}`: "a mirror pod may not use " +
			"ServiceAccountToken volume projections",
		`{volumes: [{configMap: {name: s}}]}`: "",
	} {
		u := pluginstest.Tree(t, pod+spec)
		u.SetAnnotations(map[string]string{"kubernetes.io/config.mirror": "x"})
		before := u.DeepCopy()
		err := pluginstest.Of(p, ofPods).About(t, u, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
		if diff := cmp.Diff(before.Object, u.Object); diff != "" {
			t.Errorf("%s was changed: %s", spec, diff)
		}
	}
}

func TestPodsUseOnlyTheSecretsOfAStrictAccount(t *testing.T) {
	const strict = account + `{name: %s, namespace: team, annotations: {kubernetes.io/enforce-mountable-secrets: "%s"}}` + "\n" +
		"secrets: [{name: s}]\nimagePullSecrets: [{name: p}]"
	table, _ := filled(t, fmt.Sprintf(strict, "strict", "true"), fmt.Sprintf(strict, "lax", "maybe"))
	p := accounts.ServiceAccount(table)
	const not = "is not allowed because service account strict does not reference that "
	for spec, want := range map[string]string{
		`volumes: [{secret: {secretName: s}}], imagePullSecrets: [{name: p}], containers: [{name: c, env: [{name: e, ` +
			`valueFrom: {secretKeyRef: {name: s}}}, {name: f}], envFrom: [{secretRef: {name: s}}, ` +
			`{configMapRef: {name: x}}]}]`: "",
		`volumes: [{configMap: {name: x}}, {secret: {secretName: x}}]`: `volume with secret.secretName="x" ` + not + "secret",
		`volumes: [{secret: {}}]`:                                      `volume with secret.secretName="" ` + not + "secret",
		`initContainers: [{name: i, env: [{name: e, valueFrom: {secretKeyRef: {name: x}}}]}]`: `init container i with envVar e ` +
			`referencing secret.secretName="x" ` + not + "secret",
		`containers: [{name: c, envFrom: [{secretRef: {name: x}}]}]`: `container c with envFrom referencing ` +
			`secret.secretName="x" ` + not + "secret",
		`imagePullSecrets: [{name: p}, {name: s}]`: `imagePullSecrets[1].name="s" ` + not + "imagePullSecret",
	} {
		for _, account := range []string{"strict", "lax"} {
			u := pluginstest.Tree(t, pod+"{serviceAccountName: "+account+", "+spec+"}")
			err := pluginstest.Of(p, ofPods).About(t, u, nil)
			if account == "lax" || want == "" {
				if err != nil {
					t.Errorf("%s of %s: %v", spec, account, err)
				}
				continue
			}
			if want := `pods "p" is forbidden: ` + want; err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", spec, err, want)
			}
		}
	}
}

// ephemeral asks about an update of a pod's ephemeral containers.
func ephemeral(t *testing.T, p plugins.Plugin, now *unstructured.Unstructured) error {
	t.Helper()
	set := plugins.NewSet(p)
	a := upstream.NewAttributesRecord(now, now.DeepCopy(), now.GroupVersionKind(), now.GetNamespace(), now.GetName(),
		apischema.GroupVersionResource{Version: "v1", Resource: "pods"}, "ephemeralcontainers", upstream.Update, nil, false, nil)
	if err := set.Admit(t.Context(), a, func() error { return nil }); err != nil {
		return err
	}
	return set.Validate(t.Context(), a)
}

func TestEphemeralContainersUseOnlyTheSecretsOfAStrictAccount(t *testing.T) {
	table, _ := filled(t,
		account+
			"{name: strict, namespace: team, annotations: {kubernetes.io/enforce-mountable-secrets: "+
			"\"1\"}}\nsecrets: [{name: s}]",
		account+"{name: default, namespace: team}")
	p := accounts.ServiceAccount(table)
	const with = `, ephemeralContainers: [{name: e, env: [{name: v, valueFrom: {secretKeyRef: {name: %s}}}]}]}`
	for spec, want := range map[string]string{
		`{serviceAccountName: strict` + fmt.Sprintf(with, "s"): "",
		`{serviceAccountName: strict` + fmt.Sprintf(with, "x"): `ephemeral container e with envVar v referencing ` +
			`secret.secretName="x" is not allowed because service account strict does not reference that secret`,
		`{serviceAccountName: default` + fmt.Sprintf(with, "x"): "",
		`{serviceAccountName: gone` + fmt.Sprintf(with,
			"x"): `pods "p" is forbidden: error looking up service account team/gone: ` +
			`serviceaccount "gone" not found`,
		`{a: b` + fmt.Sprintf(with, "x"): `pods "p" is forbidden: no service account specified for pod team/p`,
	} {
		u := pluginstest.Tree(t, pod+spec)
		err := ephemeral(t, p, u)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

func BenchmarkServiceAccount(b *testing.B) {
	table, _ := filled(b, account+"{name: default, namespace: team}")
	asked := pluginstest.Of(accounts.ServiceAccount(table), ofPods)
	sent := pluginstest.Tree(b, pod+"{containers: [{name: c, image: i}]}")
	b.ReportAllocs()
	for b.Loop() {
		if err := asked.About(b, sent.DeepCopy(), nil); err != nil {
			b.Fatalf("ask: %v", err)
		}
	}
}
