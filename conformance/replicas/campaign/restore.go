package campaign

import _ "go.etcd.io/etcd/etcdutl/v3/snapshot"
