package integration

// suites are the directories of upstream's tests below test/integration. The rest takes minutes.
func suites(short bool) []string {
	if short {
		return []string{"quota", "serviceaccount", "evictions"}
	}
	return append([]string{
		"quota", "serviceaccount", "auth", "servicecidr", "service", "pods", "namespace", "evictions",
	}, onDirectories()...)
}

// onDirectories are those of suites whose servers have directories of their own. The others have an etcd: their tests
// write to it, or start several servers over one.
func onDirectories() []string {
	return []string{
		"defaulttolerationseconds", "secrets", "events", "dryrun", "dualstack", "network", "certificates",
	}
}
