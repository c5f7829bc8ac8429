package gapless

import (
	"cmp"
	"errors"
	"path"
	"time"

	"github.com/gapless-io/gapless/internal/seam"
	"github.com/gapless-io/gapless/internal/store/etcd"
)

// Defaults of Etcd, which are kube-apiserver's.
const (
	DefaultEtcdPrefix         = "/registry"
	DefaultEtcdHealthTimeout  = 2 * time.Second
	DefaultCompactionInterval = 5 * time.Minute
)

// Etcd makes a Server one of several replicas whose objects are in an etcd cluster, as kube-apiserver
// keeps them: other replicas, and kube-apiserver itself, may use the same cluster at the same time.
// Config.DataDir then has the replica's own history, and its certificates. The zero value keeps the
// objects in Config.DataDir. See docs/replicas.md.
type Etcd struct {
	// Servers are the URLs of members of the cluster, like "https://10.0.0.1:2379".
	Servers []string
	// Overrides put built-in resources into clusters of their own.
	Overrides []EtcdOverride
	// CAFile has the CAs of the members' certificates, in PEM; "" means those of the system. CertFile
	// and KeyFile are a client certificate and its key; "" means that there is none.
	CAFile   string
	CertFile string
	KeyFile  string
	// Prefix is what the keys of all objects begin with; "" means DefaultEtcdPrefix. Replicas and
	// kube-apiservers of one cluster have the same.
	Prefix string
	// HealthcheckTimeout and ReadycheckTimeout are for how long etcd may not have answered before the
	// health checks fail; 0 means DefaultEtcdHealthTimeout.
	HealthcheckTimeout time.Duration
	ReadycheckTimeout  time.Duration
	// CompactionInterval is how often one of the replicas compacts etcd; 0 means
	// DefaultCompactionInterval, Forever (or any negative value) that none does. It does not limit the
	// history that a replica serves.
	CompactionInterval time.Duration
}

// used reports whether the objects are in etcd.
func (e Etcd) used() bool { return len(e.Servers) > 0 }

// withDefaults sets defaults and validates what can be seen without asking etcd.
func (e Etcd) withDefaults() (Etcd, error) {
	if !e.used() {
		if len(e.Overrides) > 0 || e.CAFile != "" || e.CertFile != "" || e.KeyFile != "" || e.Prefix != "" ||
			e.HealthcheckTimeout != 0 || e.ReadycheckTimeout != 0 || e.CompactionInterval != 0 {
			return e, errors.New("options of etcd without its servers: set Etcd.Servers (--etcd-servers), or none of them")
		}
		return e, nil
	}
	if err := e.cluster(e.allServers()).CheckForm(); err != nil {
		return e, err
	}
	if err := e.checkOverrides(); err != nil {
		return e, err
	}
	e.Prefix = path.Join("/", cmp.Or(e.Prefix, DefaultEtcdPrefix))
	if e.HealthcheckTimeout < 0 || e.ReadycheckTimeout < 0 {
		return e, errors.New("the timeouts of etcd's health checks cannot be negative; 0 means the default")
	}
	e.HealthcheckTimeout = cmp.Or(e.HealthcheckTimeout, DefaultEtcdHealthTimeout)
	e.ReadycheckTimeout = cmp.Or(e.ReadycheckTimeout, DefaultEtcdHealthTimeout)
	e.CompactionInterval = cmp.Or(e.CompactionInterval, DefaultCompactionInterval)
	return e, nil
}

// cluster says how to reach the cluster of some servers.
func (e Etcd) cluster(servers []string) etcd.Cluster {
	return etcd.Cluster{Servers: servers, CAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile}
}

// checkEtcd returns an error for what has no meaning while the objects are in etcd.
func (c Config) checkEtcd() error {
	if !c.Etcd.used() {
		return nil
	}
	switch hidden := seam.Of(&c.hidden); {
	case c.Memory:
		return errors.New("memory mode (--memory) with etcd (--etcd-servers): the objects are in etcd, and a replica needs a " +
			"directory for its history")
	case c.ResourceVersionBase != 0:
		return errors.New("a first resource version (--resource-version-base) with etcd (--etcd-servers): resource versions " +
			"are etcd's revisions")
	case hidden.Disk != nil || hidden.UnsafeNoFsync:
		return errors.New("a disk without synchronization (--unsafe-no-fsync) with etcd (--etcd-servers) is not possible")
	case c.EncryptionProviderConfigAutomaticReload:
		return errors.New("automatic reload of the encryption configuration with etcd (--etcd-servers) is not possible yet: " +
			"restart the replicas one after the other")
	}
	return nil
}
