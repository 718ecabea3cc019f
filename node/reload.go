package node

import "errors"

// errNoFile is the error of a Reload without a file.
var errNoFile = errors.New("CONFIG_PATH names no file")

// Reload reads the YAML file again and puts what it says into effect, without losing what is known about targets.
// A file that is not valid changes nothing: the error is a *ConfigError with all that is wrong with it. It is for a
// node that runs.
func (n *Node) Reload() error {
	if n.cfg.ConfigPath == "" {
		return errNoFile
	}
	fresh := n.cfg // the rest of the configuration stays
	if problems := fresh.readTargets(); len(problems) > 0 {
		return &ConfigError{Problems: problems}
	}
	if r := n.regime.Load(); r != nil {
		r.reload(fresh.Targets, fresh.Webhooks)
	}
	return nil
}
