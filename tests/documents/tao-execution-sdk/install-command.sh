npx skills add https://github.com/NVIDIA/skills --skill tao-run-platform
