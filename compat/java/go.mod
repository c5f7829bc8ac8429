module github.com/gapless-io/gapless/compat/java

go 1.26.0

require github.com/gapless-io/gapless/compat/harness v0.0.0

replace github.com/gapless-io/gapless/compat/harness => ../harness
