from tao_sdk.versions import resolve_container_image
image = resolve_container_image(skill_info["container_image"])
