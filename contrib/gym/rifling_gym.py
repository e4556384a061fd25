# SPDX-License-Identifier: Apache-2.0
"""rifling's simulator in the manner of Gymnasium.

    env = RiflingEnv("bin/rifling-gym", {"nodes": "8x8", "jobs": 200})
    obs, info = env.reset(seed=1)
    while True:
        action = info["rule"]          # or any i with obs["mask"][i] == 1
        obs, reward, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break

It needs no other package. With gymnasium installed, wrap the shapes in its
spaces: Discrete(len(env.actions)), and Box for "job" and "options".
"""
import json
import random
import subprocess
import sys


class RiflingEnv:
    """reset, step and close as gymnasium.Env has them.

    actions: names, an action is an index into them.
    job_shape, options_shape, mask_shape: of the observation's parts.
    """

    def __init__(self, program="rifling-gym", options=None):
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._options = dict(options or {})
        spaces = self._call(cmd="spaces")
        self.actions = spaces["actions"]
        self.job_features = spaces["job_features"]
        self.option_features = spaces["option_features"]
        self.job_shape = (len(self.job_features),)
        self.options_shape = (len(self.actions), len(self.option_features))
        self.mask_shape = (len(self.actions),)

    def _call(self, **request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("rifling-gym ended with status %s" % self._process.wait())
        answer = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def reset(self, *, seed=None, options=None):
        if seed is None:
            seed = random.getrandbits(32)
        answer = self._call(cmd="reset", seed=seed, options={**self._options, **(options or {})})
        return answer["observation"], answer["info"]

    def step(self, action):
        a = self._call(cmd="step", action=int(action))
        return a["observation"], a["reward"], a["terminated"], a["truncated"], a["info"]

    def close(self):
        if self._process.poll() is None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()


def play(env, seed, choose):
    """Plays an episode; returns the steps, the sum of rewards and the figures."""
    obs, info = env.reset(seed=seed)
    steps, total = 0, 0.0
    while True:
        obs, reward, terminated, truncated, info = env.step(choose(obs, info))
        steps, total = steps + 1, total + reward
        if terminated or truncated:
            return steps, total, info


def main():
    """rifling_gym.py PROGRAM SEED OPTIONS: the rule and a random agent, as JSON."""
    env = RiflingEnv(sys.argv[1], json.loads(sys.argv[3]))
    seed = int(sys.argv[2])
    rng = random.Random(seed)
    agents = {
        "rule": lambda obs, info: info["rule"],
        "random": lambda obs, info: rng.choice([i for i, ok in enumerate(obs["mask"]) if ok]),
    }
    out = {}
    for name, choose in agents.items():
        steps, total, info = play(env, seed, choose)
        out[name] = {"steps": steps, "reward": total, **info}
    env.close()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
