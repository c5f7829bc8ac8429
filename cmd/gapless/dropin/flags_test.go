package dropin

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless"
)

// envtestArgs are the arguments of controller-runtime's APIServer.defaultArgs.
const envtestArgs = "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=certs " +
	"--client-ca-file=certs/client-cert-auth-ca.crt " +
	"--disable-admission-plugins=ServiceAccount --etcd-servers=http://127.0.0.1:1 --secure-port=2 " +
	"--service-account-issuer=https://127.0.0.1:2/ " +
	"--service-account-key-file=certs/sa-signer.crt --service-account-signing-key-file=certs/sa-signer.key " +
	"--service-cluster-ip-range=10.0.0.0/24"

// kwokArgs are those of kwokctl 0.8.
const kwokArgs = "--etcd-prefix=/registry --allow-privileged=true --admission-control= --max-requests-inflight=0 " +
	"--enable-priority-and-fairness=false " +
	"--etcd-servers=http://127.0.0.1:1 --authorization-mode=Node,RBAC --bind-address=0.0.0.0 --secure-port=2 " +
	"--tls-cert-file=a.crt --tls-private-key-file=a.key " +
	"--client-ca-file=ca.crt --service-account-key-file=a.key --service-account-signing-key-file=a.key " +
	"--service-account-issuer=https://i " +
	"--proxy-client-key-file=a.key --proxy-client-cert-file=a.crt --endpoint-reconciler-type=none --v=4"

// planned returns what gapless serve is called with for a command line.
func planned(t *testing.T, line string) (args []string, ignored []string, err error) {
	t.Helper()
	settings, err := parse(apiserverTable(), strings.Fields(line))
	if err != nil {
		return nil, nil, err
	}
	kept, without, err := apiserverTable().judge(settings)
	if err != nil {
		return nil, nil, err
	}
	p, err := newPlan(kept)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range without {
		ignored = append(ignored, s.name)
	}
	for _, w := range p.warnings {
		ignored = append(ignored, w.flag+"="+w.value)
	}
	args, err = p.serve(place{DataDir: "/e", NoFsync: true})
	return args, ignored, err
}

func TestPluginsAreOnAsFlagsSay(t *testing.T) {
	for line, want := range map[string][]string{ // on, and off, besides what is by default
		"": {"ServiceAccount,StorageObjectInUseProtection", ""},
		"--disable-admission-plugins=ServiceAccount": {"StorageObjectInUseProtection", "ServiceAccount"},
		"--disable-admission-plugins=PodTopologyLabels,TaintNodesByCondition": {
			"ServiceAccount,StorageObjectInUseProtection", "TaintNodesByCondition,PodTopologyLabels",
		},
		"--enable-admission-plugins=TaintNodesByCondition": {"ServiceAccount,StorageObjectInUseProtection", ""},
		"--enable-admission-plugins=DenyServiceExternalIPs,NamespaceLifecycle": {
			"ServiceAccount,StorageObjectInUseProtection,DenyServiceExternalIPs", "",
		},
		"--admission-control=": {"", strings.Join(gapless.DefaultAdmissionPlugins(), ",")},
		"--admission-control=TaintNodesByCondition,NamespaceLifecycle,AlwaysPullImages": {
			"AlwaysPullImages", strings.Join(slices.DeleteFunc(gapless.DefaultAdmissionPlugins(), func(name string) bool {
				return name == "TaintNodesByCondition"
			}), ","),
		},
	} {
		args, _, err := planned(t, "--etcd-servers=http://127.0.0.1:1 "+line)
		got := []string{"", ""}
		for _, arg := range args {
			for i, flag := range []string{"--enable-admission-plugins=", "--disable-admission-plugins="} {
				if value, is := strings.CutPrefix(arg, flag); is {
					got[i] = value
				}
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %s", line, args, err, want)
		}
	}
}

func TestAPluginIsNotBothEnabledAndDisabled(t *testing.T) {
	_, _, err := planned(t,
		"--etcd-servers=http://127.0.0.1:1 --enable-admission-plugins=Priority --disable-admission-plugins=Priority")
	if err == nil || !strings.Contains(err.Error(), "Priority is refused: the plugin is both enabled and disabled") {
		t.Errorf("error %v, want one that names the plugin", err)
	}
}

func TestCommandLinesOfEnvtestAndKwokctlBecomeThoseOfServe(t *testing.T) {
	always := []string{
		"--stop-at-once", "--bootstrap=server",
		"--controllers=-garbage-collector-controller,-namespace-controller,-resourcequota-controller",
		"--unsafe-no-fsync",
	}
	for name, c := range map[string]struct {
		line          string
		args, ignored []string
	}{
		"envtest": {envtestArgs, slices.Concat(
			[]string{"serve", "--data-dir=/e/gapless", "--listen=127.0.0.1:2", "--authorization-mode=RBAC"}, always,
			[]string{
				"--enable-admission-plugins=StorageObjectInUseProtection", "--disable-admission-plugins=ServiceAccount",
				"--anonymous-auth",
				"--client-ca-file=certs/client-cert-auth-ca.crt",
				"--service-account-issuer=https://127.0.0.1:2/",
				"--service-account-key-file=certs/sa-signer.crt", "--service-account-signing-key-file=certs/sa-signer.key",
				"--service-cluster-ip-range=10.0.0.0/24",
			}), []string{"allow-privileged"}},
		"kwokctl": {kwokArgs, slices.Concat(
			[]string{"serve", "--data-dir=/e/gapless", "--listen=0.0.0.0:2", "--authorization-mode=Node,RBAC"}, always,
			[]string{
				"--disable-admission-plugins=" + strings.Join(gapless.DefaultAdmissionPlugins(), ","),
				"--log-level=debug", "--anonymous-auth", "--max-requests-inflight=1000000", "--tls-cert-file=a.crt",
				"--tls-private-key-file=a.key",
				"--client-ca-file=ca.crt", "--service-account-key-file=a.key", "--service-account-signing-key-file=a.key",
				"--service-account-issuer=https://i", "--proxy-client-key-file=a.key", "--proxy-client-cert-file=a.crt",
			}), []string{
			"allow-privileged", "enable-priority-and-fairness", "endpoint-reconciler-type",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			args, ignored, err := planned(t, c.line)
			if err != nil {
				t.Fatalf("planned: %v", err)
			}
			if diff := cmp.Diff(c.args, args); diff != "" {
				t.Errorf("arguments of serve, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(c.ignored, ignored); diff != "" {
				t.Errorf("ignored, -want +got:\n%s", diff)
			}
		})
	}
}

func TestPodsLeaveNodesAsTheFlagsOfKubeAPIServerSay(t *testing.T) {
	for _, flag := range []string{"--default-not-ready-toleration-seconds=7", "--default-unreachable-toleration-seconds=8"} {
		args, ignored, err := planned(t, "--etcd-servers=http://127.0.0.1:1 "+flag)
		if err != nil || len(ignored) > 0 || !slices.Contains(args, flag) {
			t.Errorf("%s: %v, ignored %v, error %v", flag, args, ignored, err)
		}
	}
}

func TestAFlagHasOneRule(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a second rule for a flag replaces the first")
		}
	}()
	apiserverTable().add(ignored, "again", "event-ttl")
}

func TestEventsExpireAsTheFlagOfKubeAPIServerSays(t *testing.T) {
	for _, flag := range []string{"--event-ttl=2h", "--event-ttl=0"} {
		args, ignored, err := planned(t, "--etcd-servers=http://127.0.0.1:1 "+flag)
		if err != nil || !slices.Contains(args, flag) || len(ignored) > 0 {
			t.Errorf("%s: %v, %v, %v", flag, args, ignored, err)
		}
	}
}

func TestRequestsAreTracedAsTheFlagOfKubeAPIServerSays(t *testing.T) {
	args, ignored, err := planned(t, "--etcd-servers=http://127.0.0.1:1 --tracing-config-file=t.yaml")
	if err != nil || !slices.Contains(args, "--tracing-config-file=t.yaml") || len(ignored) > 0 {
		t.Errorf("%v, %v, %v", args, ignored, err)
	}
}

func TestTheDashboardIsServedBesideKubeAPIServersPort(t *testing.T) {
	const flag = "--dashboard-listen=127.0.0.1:0"
	args, ignored, err := planned(t, "--etcd-servers=http://127.0.0.1:1 "+flag)
	if err != nil || !slices.Contains(args, flag) || len(ignored) > 0 {
		t.Errorf("%v, %v, %v", args, ignored, err)
	}
}

func TestFlagsThatProtectAreNeverIgnored(t *testing.T) {
	const base = "--etcd-servers=http://127.0.0.1:1 "
	for flag, reason := range map[string]string{
		"--basic-auth-file=f":                                              "no passwords",
		"--authorization-mode=RBAC,ABAC":                                   "want RBAC",
		"--authorization-config=f --authorization-mode=RBAC":               "--authorization-mode is given too",
		"--authorization-policy-file=f":                                    "no authorizer ABAC",
		"--audit-webhook-config-file=f":                                    "to a file only",
		"--enable-admission-plugins=NamespaceLifecycle,ImagePolicyWebhook": "would accept what it denies",
		"--tls-min-version=VersionTLS13":                                   "TLS 1.2",
		"--tls_cipher_suites=TLS_AES_128_GCM_SHA256":                       "Go's default",
		"--secure-port=0":                                                  "without TLS",
		"--etcd-cafile=f":                                                  "HTTP without TLS",
		"--some-new-token-source=f":                                        "unknown, and by its name",
		"--encryption-at-rest":                                             "unknown, and by its name",
	} {
		t.Run(flag, func(t *testing.T) {
			_, _, err := planned(t, base+flag)
			name, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimLeft(flag, "-"), " ", "="), "=")
			if err == nil || !strings.Contains(err.Error(), reason) ||
				!strings.Contains(err.Error(), "--"+strings.ReplaceAll(name, "_", "-")) {
				t.Errorf("error %v, want one that names the flag and says %q", err, reason)
			}
		})
	}
}

func TestAllRefusedFlagsAreNamedAtOnce(t *testing.T) {
	_, _, err := planned(t, "--basic-auth-file=f --authorization-policy-file=f --etcd-servers=http://127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "--basic-auth-file") ||
		!strings.Contains(err.Error(), "--authorization-policy-file") {
		t.Errorf("error %v, want both flags", err)
	}
}

func TestFlagsThatProtectButAskForNothingAreAccepted(t *testing.T) {
	for _, flag := range []string{
		"--oidc-issuer-url=", "--enable-bootstrap-token-auth=false", "--tls-min-version=VersionTLS12",
		"--authorization-mode=AlwaysDeny,RBAC",
		"--requestheader-username-headers=X-Remote-User", "--enable-admission-plugins=MutatingAdmissionWebhook,PodSecurity",
		"--audit-log-path=- --audit-policy-file=p", "--insecure-port=0", "--advertise-address 127.0.0.1", "-v 2 --vmodule a=1",
		"--feature-gates=A=true --runtime-config=api/all=true",
	} {
		if _, _, err := planned(t, "--etcd-servers=http://127.0.0.1:1 "+flag); err != nil {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestAuthorizationModes(t *testing.T) {
	for modes, want := range map[string]string{
		"": "AlwaysAllow", "RBAC": "RBAC", "Node,RBAC": "Node,RBAC", "RBAC, AlwaysAllow": "RBAC,AlwaysAllow",
		"AlwaysDeny": "AlwaysDeny", "Node": "Node",
	} {
		got, err := (&plan{modes: list(modes)}).access()
		if got != "--authorization-mode="+want || err != nil {
			t.Errorf("%q: %q, %v, want %q", modes, got, err, want)
		}
	}
}

// TestFlagsAboutCallersArePassedOn has one of each kind: with values, with lists, and with files that decide about others.
func TestFlagsAboutCallersArePassedOn(t *testing.T) {
	const base = "--etcd-servers=http://127.0.0.1:1 "
	for _, flag := range []string{
		"--authentication-token-webhook-config-file=f", "--authentication-token-webhook-cache-ttl=1s",
		"--authentication-token-webhook-version=v1", "--oidc-issuer-url=https://i", "--oidc-client-id=c", "--oidc-ca-file=f",
		"--oidc-username-claim=c", "--oidc-username-prefix=-", "--oidc-groups-claim=c", "--oidc-groups-prefix=p",
		"--oidc-required-claim=a=b", "--oidc-signing-algs=ES256", "--enable-bootstrap-token-auth=true",
		"--requestheader-client-ca-file=f", "--requestheader-allowed-names=a,b", "--requestheader-username-headers=X-User",
		"--requestheader-group-headers=X-Group", "--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-extra-headers-prefix=X-Extra-", "--service-account-max-token-expiration=1h",
		"--service-account-extend-token-expiration=false", "--authorization-webhook-config-file=f",
		"--authorization-webhook-version=v1", "--authorization-webhook-cache-authorized-ttl=1s",
		"--authorization-webhook-cache-unauthorized-ttl=1s", "--authorization-config=f", "--authentication-config=f",
	} {
		args, ignored, err := planned(t, base+flag)
		if err != nil || !slices.Contains(args, flag) || len(ignored) > 0 || !slices.Contains(args, "--anonymous-auth") {
			t.Errorf("%s: %v, %v, %v", flag, args, ignored, err)
		}
	}
	file := filepath.Join(t.TempDir(), "f")
	const body = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: false}\n"
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if args, _, err := planned(t, base+"--authentication-config="+file); err != nil || slices.Contains(args, "--anonymous-auth") {
		t.Errorf("a file that says who is anonymous: %v, %v", args, err)
	}
	args, _, err := planned(t, base+"--authorization-config=f")
	if modes := strings.Join(args, " "); err != nil || strings.Contains(modes, "--authorization-mode") {
		t.Errorf("a file instead of modes: %v, %v", args, err)
	}
}

func TestArgumentsAreReadAsUpstreamReadsThem(t *testing.T) {
	got, err := parse(apiserverTable(), []string{
		"--allow-privileged", "--secure-port", "6443", "--token_auth_file=a=b", "-v5", "-v", "6", "--anonymous-auth=false",
		"--unheard-of", "x", "--alone", "--etcd-servers=", "-h",
	})
	want := []setting{
		{name: "allow-privileged", value: "true"},
		{name: "secure-port", value: "6443"},
		{name: "token-auth-file", value: "a=b"},
		{name: "v", value: "5"},
		{name: "v", value: "6"},
		{name: "anonymous-auth", value: "false"},
		{name: "unheard-of", value: "x"},
		{name: "alone", value: "true"},
		{name: "etcd-servers"},
		{name: "help", value: "true"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(setting{})); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for _, wrong := range [][]string{{"serve"}, {"--"}, {"-x"}, {"--secure-port"}} {
		if got, err := parse(apiserverTable(), wrong); err == nil {
			t.Errorf("%q is read as %v, want an error", wrong, got)
		}
	}
}

func TestHelpShowsWhatEnvtestLooksFor(t *testing.T) {
	shows := func(text, flag string) bool { // as CheckFlag
		return regexp.MustCompile(`(?m)^\s*--` + flag + `\b`).MatchString(text)
	}
	if help := apiserverTable().help("kube-apiserver"); shows(help, "insecure-port") || !shows(help, "secure-port") {
		t.Errorf("kube-apiserver --help says\n%s", help)
	}
	if help := etcdTable().help("etcd"); !shows(help, "unsafe-no-fsync") {
		t.Errorf("etcd --help says\n%s", help)
	}
}

func FuzzCommandLine(f *testing.F) {
	f.Add(envtestArgs)
	f.Add(kwokArgs)
	f.Add("-v5 --tls-min-version VersionTLS13 --x --y z -h")
	tables := []table{apiserverTable(), etcdTable()}
	f.Fuzz(func(t *testing.T, line string) {
		for _, table := range tables {
			settings, err := parse(table, strings.Split(line, " "))
			if err != nil {
				continue
			}
			kept, ignored, err := table.judge(settings)
			for _, s := range ignored {
				if r := table[s.name]; r.do == refused || r.do == "" && unknown(s.name).do == refused {
					t.Errorf("--%s is ignored, and has to do with security", s.name)
				}
			}
			if err != nil {
				continue
			}
			if _, _, err := newPlace(kept); err != nil {
				continue
			}
			if p, err := newPlan(kept); err == nil {
				_, _ = p.serve(place{DataDir: "/e"}) // it must not panic
			}
		}
	})
}
