// Package gapless is a Kubernetes-compatible API server, and a relay of one, that run inside a
// program. They are what `gapless serve` and `gapless relay` run.
//
// A [Config] says where the server keeps its data, where it listens
// and how much history it keeps. [New] returns a [Server], which [Server.Run] runs until its
// context ends; then it finishes the requests in progress and closes its data. These parts of a Config have types of
// their own:
//   - [Authentication] says how the server identifies callers, with its [OIDC], [TokenWebhook] and [FrontProxy];
//   - [Authorization] says who decides what callers may do, perhaps an [AccessWebhook];
//   - [Audit] says what is recorded of their requests, and [Limits] how many requests and connections each may have;
//   - [Aggregation] says how requests are passed on to other API servers;
//   - [Etcd] says where the objects are that several servers share, with an [EtcdOverride] for those in a cluster of
//     their own;
//   - [Bootstrap] says which of the objects that every cluster has the server creates.
//
// [AdmissionPlugins] and [DefaultAdmissionPlugins] are the names that a Config may turn on and off. [Applied] counts the
// objects of manifests that a start created, updated or left unchanged. A [Watch] describes a watch that is open.
//
// For the relay, a [RelayConfig] says which API server is mirrored, where its
// history is kept and for how long; its [RelayAccess] says how callers are identified and how
// long an answer of that server about them is used. [NewRelay] returns a [Relay], which
// [Relay.Run] runs until its context ends.
//
// A server over etcd is a replica. What servers, replicas and relays report of themselves has the types of package status.
package gapless

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/admission/plugins/catalog"
	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/controllers/manager"
	"github.com/gapless-io/gapless/internal/dashboard/port"
	"github.com/gapless-io/gapless/internal/seam"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// Defaults of a Config.
const (
	DefaultListen  = "127.0.0.1:6443"
	DefaultHistory = 24 * time.Hour
	// DefaultEventTTL is kube-apiserver's.
	DefaultEventTTL = time.Hour
	// DefaultTolerationSeconds is kube-apiserver's: five minutes.
	DefaultTolerationSeconds = 300
	// DefaultHistoryBytes limits the history on disk, DefaultMemoryHistoryBytes that in
	// memory (memory mode).
	DefaultHistoryBytes       = 1 << 30
	DefaultMemoryHistoryBytes = 256 << 20
	// MinHistoryBytes is the smallest limit: with less, history could be compacted
	// before watches receive it.
	MinHistoryBytes = 8 << 20
	// Forever means no limit of age or bytes.
	Forever = -1
)

// minEventTTL is the smallest Config.EventTTL: kube-apiserver counts whole seconds, and takes less
// than one for no limit.
const minEventTTL = time.Second

// Bootstrap says which objects a server creates, besides the first namespaces. Changes
// and additions of users are kept as in a cluster: see docs/differences.md.
type Bootstrap int

const (
	// BootstrapServer creates the objects of kube-apiserver: the Service kubernetes with its
	// Endpoints and EndpointSlice, the default roles and their bindings, and an APIService for each
	// version of a group that it serves. It is the default, as in envtest.
	BootstrapServer Bootstrap = iota
	// BootstrapCluster also creates the objects of kube-controller-manager: the ConfigMap
	// kube-root-ca.crt and the ServiceAccount default in each namespace, and the rules of
	// aggregated ClusterRoles. Over etcd it does so beside a kube-controller-manager too, and
	// each ConfigMap gets the CA of the replica that leads.
	BootstrapCluster
	// BootstrapNone creates none.
	BootstrapNone
	// BootstrapAuto is BootstrapCluster but over etcd: there the objects of kube-controller-manager
	// are left to one that works, which renews its Lease, and a ConfigMap kube-root-ca.crt with
	// another CA is left as it is. It is the default of gapless serve.
	BootstrapAuto
)

// hidden and called keep what only tests of this module use out of the API.
type (
	hidden = seam.Hidden
	called = seam.Called
)

// Config is the configuration of a Server. The zero value of every field but DataDir
// means its default.
type Config struct {
	hidden // what tests of this module set; see package seam

	// DataDir holds the log, the certificates and a kubeconfig. It is created if it is
	// missing; if it exists, it must be empty or a data directory. In memory mode it may
	// be "": then certificates and kubeconfig are in a temporary directory, which is
	// removed when Run returns.
	DataDir string
	// Memory keeps all objects and their history in memory only.
	Memory bool
	// Listener is what the server listens on, instead of Listen; Run closes it. Its
	// certificate is for the host of the address Listen.
	Listener net.Listener
	// Listen is the address, "host:port"; port 0 picks a free one. The default is
	// DefaultListen, on the loopback interface.
	Listen string
	// DashboardListen is the address of the dashboard, a web page that shows what is kept and what changed; "" is none. On
	// a loopback address it asks for no credentials, unless https:// stands before it. See docs/dashboard.md.
	DashboardListen string
	// History is how long superseded and deleted versions are kept; 0 means
	// DefaultHistory, Forever (or any negative value) no limit. HistoryBytes limits
	// their size in the same way; the minimum is MinHistoryBytes.
	History      time.Duration
	HistoryBytes int64
	// EventTTL is how long an Event is kept after its last write; then it is deleted, and watches
	// see that. 0 means DefaultEventTTL, Forever (or any negative value) that Events are kept. The
	// minimum is a second. See docs/controllers.md.
	EventTTL time.Duration
	// ResourceVersionBase is the resource version before the first write; 0 means
	// 1 000 000 000. It is only used for an empty data directory.
	ResourceVersionBase int64
	// ClientKeyAlgorithm is the algorithm of the key in the kubeconfig: "ecdsa", or "rsa" for
	// clients that cannot read other keys, like Java's fabric8 before 7. A key of the
	// other algorithm is replaced, in the kubeconfig too; its certificate stays valid
	// until it expires. "" keeps an existing key, and creates a new one with "ecdsa".
	ClientKeyAlgorithm string
	// Etcd keeps the objects in an etcd cluster instead of DataDir, so that there can be several
	// servers; the default is none.
	Etcd Etcd
	// Authentication says how callers are identified.
	Authentication Authentication
	// Bootstrap says which objects the server creates.
	Bootstrap Bootstrap
	// Aggregation says how requests are passed on to other API servers.
	Aggregation Aggregation
	// AuthorizationMode says who may do what: AuthorizationRBAC, which is the default, or several modes, separated by
	// commas, of which the first that allows or denies decides: AuthorizationNode, AuthorizationRBAC, AuthorizationWebhook,
	// AuthorizationAlwaysAllow, AuthorizationAlwaysDeny; or AuthorizationMastersOnly alone. See docs/access.md.
	AuthorizationMode string
	// Authorization has the file that is instead of AuthorizationMode, and the webhook of a mode.
	Authorization Authorization
	// Controllers are the controllers that the server runs, as kube-controller-manager's flag
	// lists them: a name turns one on, a name after a - turns one off, and * turns on those
	// that are not named. Nil means *. Over etcd those that are not named stand still while a
	// kube-controller-manager works, which renews its Lease. See docs/controllers.md.
	Controllers []string
	// ServiceClusterIPRanges are the ranges of which Services get their cluster IPs, like "10.0.0.0/24": one, or one of
	// each IP family, the default first; nil means DefaultServiceClusterIPRange. They are made the ServiceCIDR
	// "kubernetes" if there is none; otherwise that one counts, but new Services have the IP families of these ranges,
	// if they are not nil. ServiceNodePortRange is that of node ports; "" means
	// DefaultServiceNodePortRange, or over etcd the one in which other servers have registered theirs.
	ServiceClusterIPRanges []string
	ServiceNodePortRange   string
	// EnableAdmissionPlugins and DisableAdmissionPlugins turn admission plugins of kube-apiserver, by their names there,
	// on and off: AdmissionPlugins has those that can be. Those that are in neither are on if they are in
	// DefaultAdmissionPlugins; but without Etcd StorageObjectInUseProtection is off where Controllers has not all three
	// that release what it protects, and ServiceAccount where Bootstrap makes no accounts. docs/kinds.md says what they do.
	EnableAdmissionPlugins, DisableAdmissionPlugins []string
	// AdmissionControlConfigFile is a file with an AdmissionConfiguration of apiserver.config.k8s.io/v1, the
	// configurations of admission plugins; "" is none.
	AdmissionControlConfigFile string
	// DefaultNotReadyTolerationSeconds and DefaultUnreachableTolerationSeconds are how long pods stay on a node that is
	// not ready, or cannot be reached, if they do not say: the plugin DefaultTolerationSeconds adds it to them. Nil is
	// DefaultTolerationSeconds.
	DefaultNotReadyTolerationSeconds, DefaultUnreachableTolerationSeconds *int64
	// From are files of manifests, and directories that contain such files. Each start applies
	// them after it has created the objects of Bootstrap and before it is ready, as by
	// server-side apply with the field manager "gapless", which takes fields by force. If one
	// of them is wrong, Run returns an error that names all problems. See docs/seeding.md.
	From []string
	// TracingConfigFile is a file with a TracingConfiguration of apiserver.config.k8s.io/v1: where spans of requests are
	// sent, and of how many requests; "": nowhere. It is read at the start. See docs/monitoring.md.
	TracingConfigFile string
	// EncryptionProviderConfig is a file with an EncryptionConfiguration of
	// apiserver.config.k8s.io/v1, which says which resources are encrypted in the data
	// directory and with which keys; "" encrypts nothing. See docs/encryption.md.
	EncryptionProviderConfig string
	// EncryptionProviderConfigAutomaticReload puts changes of that file in force while the
	// server runs.
	EncryptionProviderConfigAutomaticReload bool
	// Limits protect clients from each other; 0 means the default.
	Limits Limits
	// Audit records who did what; the default is no audit log.
	Audit Audit
	// Faults makes requests fail on demand, for tests, by rules that an administrator can also
	// change at /faults; nil means that there is no such thing. A set may be given to a server
	// that takes the place of another one. See docs/faults.md.
	Faults *fault.Set
	// Logger gets life-cycle messages, and at debug level each request; nil
	// discards them.
	Logger *slog.Logger
}

// withDefaults sets defaults and validates the configuration.
func (c Config) withDefaults() (Config, error) {
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	var err error
	if c.History, c.HistoryBytes, err = historyBounds(c.History, c.HistoryBytes, c.Memory); err != nil {
		return c, err
	}
	if c.EventTTL = cmp.Or(c.EventTTL, DefaultEventTTL); c.EventTTL > 0 && c.EventTTL < minEventTTL {
		return c, fmt.Errorf("event TTL %v (--event-ttl): want at least %v; Forever, as a flag 0, keeps Events",
			c.EventTTL, minEventTTL)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.DataDir == "" && !c.Memory {
		return c, errors.New("no data directory: set DataDir, or Memory")
	}
	if seam.Of(&c.hidden).Disk != nil && !c.Memory {
		return c, errors.New("a disk in memory is only for memory mode (Memory)")
	}
	if c.Etcd, err = c.Etcd.withDefaults(); err != nil {
		return c, err
	}
	if err := errors.Join(c.checkEtcd(),
		aggregator.CheckFiles(c.Aggregation.ProxyClientCertFile, c.Aggregation.ProxyClientKeyFile)); err != nil {
		return c, err
	}
	if c.EncryptionProviderConfigAutomaticReload && c.EncryptionProviderConfig == "" {
		return c, errors.New(
			"automatic reload of the encryption configuration (--encryption-provider-config-automatic-reload): name the file " +
				"(--encryption-provider-config)")
	}
	if c.Bootstrap == BootstrapAuto && !c.Etcd.used() {
		c.Bootstrap = BootstrapCluster
	}
	if c.Controllers == nil {
		c.Controllers = []string{"*"}
	}
	if err := manager.Check(c.Controllers); err != nil {
		return c, err
	}
	if err := errors.Join(catalog.Check(c.EnableAdmissionPlugins, c.DisableAdmissionPlugins),
		c.checkServiceRanges(), port.Check(c.DashboardListen)); err != nil {
		return c, err
	}
	if c, err = c.authorization(); err != nil {
		return c, err
	}
	if c.Authentication, err = c.Authentication.withDefaults(); err != nil {
		return c, err
	}
	if slices.Contains(c.authorizationModes(), AuthorizationAlwaysAllow) && c.Authentication.Anonymous {
		// As upstream: pkg/kubeapiserver/options/authentication.go ApplyAuthorization.
		c.Logger.Warn(anonymousAlwaysAllow)
		c.Authentication.Anonymous = false
	}
	if c.Limits, err = c.Limits.withDefaults(); err != nil {
		return c, err
	}
	if _, _, err := c.Audit.options(c); err != nil {
		return c, err
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return c, fmt.Errorf("address to listen on: %w; want an address like 127.0.0.1:6443", err)
	}
	if _, err := auth.ParseKeyAlgorithm(c.ClientKeyAlgorithm); err != nil {
		return c, fmt.Errorf("algorithm of the client key: %w", err)
	}
	return c, nil
}

// historyBounds returns how long history is kept, and how many bytes of it, with defaults.
func historyBounds(age time.Duration, bytes int64, memory bool) (time.Duration, int64, error) {
	age = cmp.Or(age, DefaultHistory)
	if bytes == 0 {
		bytes = DefaultHistoryBytes
		if memory {
			bytes = DefaultMemoryHistoryBytes
		}
	}
	if bytes > 0 && bytes < MinHistoryBytes {
		return age, bytes, fmt.Errorf(
			"a history of %d bytes is too small: want at least %d; 0 means the default, and Forever no limit",
			bytes, MinHistoryBytes)
	}
	return age, bytes, nil
}

// storeOptions returns the options of the log.
func (c Config) storeOptions() (revlog.Options, error) {
	o := revlog.Options{
		Dir: filepath.Join(c.DataDir, "log"), Memory: c.Memory, BaseRevision: c.ResourceVersionBase,
		History: max(c.History, 0), HistoryBytes: max(c.HistoryBytes, 0), Logger: c.Logger,
	}
	switch hidden := seam.Of(&c.hidden); {
	case hidden.Disk != nil:
		o.FS = hidden.Disk.FS()
	case hidden.UnsafeNoFsync && !c.Memory:
		var err error
		if o.FS, err = disk.NewUnsynced(o.Dir); err != nil {
			return o, err
		}
	}
	return o, nil
}
